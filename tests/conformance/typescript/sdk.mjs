// Loads packages from where tests/e2e/install.py puts them.

import { createRequire } from "node:module";

const require = createRequire(new URL("../../../.cache/e2e/npm-servers/", import.meta.url));

export const load = (name) => require(name);
export const z = load("zod/v4");
export const text = (words) => ({ type: "text", text: words });
export const said = (words) => ({ content: [text(words)] });
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export const PICTURE =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
export const SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
export const picture = () => ({ type: "image", data: PICTURE, mimeType: "image/png" });
export const embedded = (uri, mimeType, words) => ({ type: "resource", resource: { uri, mimeType, text: words } });
