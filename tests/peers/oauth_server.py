"""An authorization server and an MCP server that it protects, on the SDK, in one process.

    oauth_server.py

It prints its address. `POST /control` changes how it behaves (`Behaviour`), `GET /events` tells what happened, with
every secret that it gave or got, so that a test can look for them. `/elsewhere/mcp` and its like are servers that point
to another resource or to an authorization server that must not be trusted.
"""

# ruff: noqa: ARG002 -- the SDK names the arguments

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import socket
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import jwt
import uvicorn
from mcp import types
from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.lowlevel import Server
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SCOPES = ["user", "more"]


@dataclass
class Behaviour:
    lifetime: int = 3600
    """Seconds for which a token is accepted."""
    told_lifetime: int | None = None
    """What is said of that, where it is something else."""
    answer: str = "grant"
    """What the person does: `grant`, `deny`, `wander` (never comes back) or `forge` (comes back with another state)."""
    refreshes: str = "rotate"
    """`rotate`, `keep` (the old one goes on), `refuse`, `break` (500) or `none` (there are none)."""
    delay: float = 0.0
    """Seconds that a refresh takes, or a token for client credentials."""
    machines: str = "grant"
    """What clients without a person get: `grant`, `refuse` or `break` (503)."""


@dataclass
class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    behaviour: Behaviour = field(default_factory=Behaviour)
    events: list[dict[str, Any]] = field(default_factory=list)
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)

    keys: dict[str, str] = field(default_factory=dict)
    """Public keys of clients that sign instead of having a secret."""

    def note(self, event: str, **values: Any) -> None:
        self.events.append({"event": event, **values})

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info
        self.note("registered", name=client_info.client_name, secret=client_info.client_secret)

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.note("authorize", resource=params.resource, scopes=params.scopes, redirect=str(params.redirect_uri))
        back = str(params.redirect_uri)
        if self.behaviour.answer == "wander":
            return construct_redirect_uri(back.replace("/callback", "/elsewhere"))
        if self.behaviour.answer == "deny":
            return construct_redirect_uri(
                back, error="access_denied", error_description="not\x1b[31m today", state=params.state
            )
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.note("code", secret=code)
        return construct_redirect_uri(
            back, code=code, state="forged" if self.behaviour.answer == "forge" else params.state
        )

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issued(client.client_id, authorization_code.scopes, authorization_code.resource)

    def _issued(
        self, client: str, scopes: list[str], resource: str | None, keep: str = "", *, renews: bool = True
    ) -> OAuthToken:
        access = f"at-{secrets.token_urlsafe(24)}"
        renews = renews and self.behaviour.refreshes != "none"
        refresh = keep or (f"rt-{secrets.token_urlsafe(24)}" if renews else "")
        ends = int(time.time()) + self.behaviour.lifetime
        self.access[access] = AccessToken(
            token=access, client_id=client, scopes=scopes, expires_at=ends, resource=resource
        )
        if refresh:
            self.refresh[refresh] = RefreshToken(token=refresh, client_id=client, scopes=scopes, resource=resource)
        self.note("issued", secret=access, refresh=refresh)
        told = self.behaviour.told_lifetime
        return OAuthToken(
            access_token=access,
            expires_in=self.behaviour.lifetime if told is None else told,
            scope=" ".join(scopes),
            refresh_token=refresh or None,
        )

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        self.note("refresh", token=refresh_token, known=refresh_token in self.refresh)
        await asyncio.sleep(self.behaviour.delay)
        if self.behaviour.refreshes == "break":
            raise RuntimeError("broken")
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.behaviour.refreshes == "refuse":
            raise TokenError("invalid_grant", f"no more of {refresh_token.token}")
        if self.behaviour.refreshes == "keep":
            return self._issued(client.client_id, scopes, refresh_token.resource, refresh_token.token)
        del self.refresh[refresh_token.token]
        return self._issued(client.client_id, scopes, refresh_token.resource)

    async def client_credentials(self, request: Request, form: dict[str, str], issuer: str) -> Response:
        """A token for a client that comes without a person."""
        await asyncio.sleep(self.behaviour.delay)
        client, method = self._authenticated(request, form, issuer)
        self.note("machine", method=method, known=bool(client), scope=form.get("scope"), resource=form.get("resource"))
        if self.behaviour.machines == "break":
            return JSONResponse({"error": "temporarily_unavailable"}, 503)
        if not client or self.behaviour.machines == "refuse":
            told = f"who is {form.get('client_assertion') or request.headers.get('authorization')}?"
            return JSONResponse({"error": "invalid_client", "error_description": told}, 401)
        token = self._issued(client, form.get("scope", "user").split(), form.get("resource"), renews=False)
        return JSONResponse(token.model_dump(exclude_none=True))

    def _authenticated(self, request: Request, form: dict[str, str], issuer: str) -> tuple[str, str]:
        """The client, if it is one that is known, and how it proves who it is."""
        if assertion := form.get("client_assertion"):
            name = jwt.decode(assertion, options={"verify_signature": False})["sub"]
            self.note("assertion", secret=assertion)
            try:
                jwt.decode(assertion, self.keys[name], algorithms=["ES256", "RS256"], audience=issuer)
            except (jwt.InvalidTokenError, KeyError):
                return "", "private_key_jwt"
            return name, "private_key_jwt"
        basic = request.headers.get("authorization", "").removeprefix("Basic ")
        given = [unquote(part) for part in base64.b64decode(basic).decode().partition(":")[::2]] if basic else []
        name, secret = given or (form.get("client_id", ""), form.get("client_secret", ""))
        known = self.clients.get(name)
        is_right = known is not None and known.client_secret == secret
        return name if is_right else "", "client_secret_basic" if basic else "client_secret_post"

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        self.note("used", known=found is not None)
        return found

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.note("revoked", token=token.token)
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)


async def list_tools(_: ServerRequestContext[Any, Any], __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="whoami", input_schema={"type": "object"})])


async def call_tool(_: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    token = get_access_token()
    said = json.dumps({"scopes": token.scopes if token else None, "arguments": params.arguments})
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


def strange_routes(address: str) -> list[Route]:
    """Servers that point to something else than themselves; NAME in the address of their metadata says to what."""
    resources = {"elsewhere": ("https://other.example/mcp", address)}
    resources["insecure"] = (f"{address}/insecure/mcp", "http://auth.example")
    resources["page"] = (f"{address}/page/mcp", f"{address}/page")
    resources["metadata"] = (f"{address}/metadata/mcp", "https://169.254.169.254")
    resources["discover"] = resources["initialize"] = resources["elsewhere"]
    only = {"discover": "server/discover", "initialize": "initialize"}

    async def challenge(request: Request) -> Response:
        """What is no request of the only kind that the server knows, is wrong before credentials are looked at."""
        method = only.get(request.path_params["name"])
        if method is not None and (await request.json())["method"] != method:
            return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}, 400)
        where = f"{address}/strange/{request.path_params['name']}"
        headers = {"www-authenticate": f'Bearer resource_metadata="{where}"'}
        return Response(status_code=401, headers=headers)

    async def metadata(request: Request) -> Response:
        resource, authority = resources[request.path_params["name"]]
        return JSONResponse({"resource": resource, "authorization_servers": [authority]})

    async def authority(_: Request) -> Response:
        """An authorization server that is what it should be, but for the page that people are sent to."""
        endpoints = {name: f"{address}/{name}" for name in ("token", "register")}
        return JSONResponse(
            {
                "issuer": f"{address}/page",
                "authorization_endpoint": "http://auth.example/authorize",
                "token_endpoint": endpoints["token"],
                "registration_endpoint": endpoints["register"],
            }
        )

    async def plain(_: Request) -> Response:
        return PlainTextResponse("nothing to see", status_code=200)

    return [
        Route("/{name}/mcp", challenge, methods=["GET", "POST"]),
        Route("/strange/{name}", metadata),
        Route("/.well-known/oauth-authorization-server/page", authority),
        Route("/open", plain, methods=["GET", "POST"]),
    ]


def application(address: str, provider: Provider) -> Any:
    async def control(request: Request) -> Response:
        for name, value in (await request.json()).items():
            setattr(provider.behaviour, name, value)
        return JSONResponse({})

    async def reset(_: Request) -> Response:
        provider.behaviour = Behaviour()
        for kept in (provider.events, provider.clients, provider.codes, provider.access, provider.refresh):
            kept.clear()
        provider.keys.clear()
        return JSONResponse({})

    async def events(_: Request) -> Response:
        return JSONResponse(provider.events)

    async def client(request: Request) -> Response:
        """Register a client by hand, as people do."""
        body = await request.json()
        if key := body.pop("public_key", ""):
            provider.keys[body["client_id"]] = key
        provider.clients[body["client_id"]] = OAuthClientInformationFull.model_validate(body)
        return JSONResponse({})

    async def expire(_: Request) -> Response:
        provider.access.clear()
        return JSONResponse({})

    routes = [
        Route("/control", control, methods=["POST"]),
        Route("/client", client, methods=["POST"]),
        Route("/expire", expire, methods=["POST"]),
        Route("/reset", reset, methods=["POST"]),
        Route("/events", events),
        *strange_routes(address),
    ]
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(address),
        resource_server_url=AnyHttpUrl(f"{address}/mcp"),
        validate_token_resource=True,
        required_scopes=["user"],
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=SCOPES, default_scopes=["user"]
        ),
        revocation_options=RevocationOptions(enabled=True),
    )
    server = Server("protected", version="1.0", on_list_tools=list_tools, on_call_tool=call_tool)
    app = server.streamable_http_app(
        auth=settings,
        auth_server_provider=provider,
        token_verifier=ProviderTokenVerifier(provider),
        custom_starlette_routes=routes,
    )
    return with_client_credentials(app, address, provider)


def with_client_credentials(app: ASGIApp, address: str, provider: Provider) -> ASGIApp:
    """The SDK's token endpoint knows no `client_credentials`: this answers for it."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/token":
            await app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        form = dict(parse_qsl(body.decode()))

        async def again() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        if form.get("grant_type") != "client_credentials":
            await app(scope, again, send)
            return
        answer = await provider.client_credentials(Request(scope, again), form, str(AnyHttpUrl(address)))
        await answer(scope, again, send)

    return handle


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        print(address, flush=True)
        config = uvicorn.Config(application(address, Provider()), log_level="critical", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
