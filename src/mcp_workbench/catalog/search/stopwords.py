"""What English words mean for a search: which say nothing, which say little, and which stand for one another.

The lists are about tools in general and name no product. They hold plain words; search uses their stems.
"""

from __future__ import annotations

_STOP = """
    a about above after again against all also am an and any are aren as at be because been before being below
    between both but by can cannot could couldn d did didn do does doesn doing don down during each either else
    etc ever every few for from further had hadn has hasn have haven having he her here hers herself him himself
    his how however i if in into is isn it its itself just let ll m may maybe me might mine more most must my
    myself neither no nor not now of off on once one only onto or other others ought our ours ourselves out over
    own per please quite rather re really s same shall she should shouldn so some such t than that the their
    theirs them themselves then there these they this those through thus to too under until up upon us ve very
    via was wasn we were weren what whatever when where whether which while who whom whose why will with within
    without won would wouldn yet you your yours yourself yourselves
"""

_WEAK = """
    able according actually allow already always among another anyone anything appropriate assist available back
    base based basic become better bit brief bring certain clear come common complete comprehensive contain
    correct corresponding current currently desired detail detailed different directly easily easy effective
    enable ensure entire especially everything exactly example existing explore far feel following full fully
    general give given go going good great guide handle happen hello help helpful hey hi hope idea important
    include including individual info information interested interesting involve keep kind know large last later
    learn least less like likely little long look looking lot main make many matter mean multiple need needed
    next nice offer often ok okay option overall part particular perform plus possible potential prepare present
    probably proper properly provide purpose put recommend regarding related relevant respectively right several
    show similar simple simply since single something soon specific specified specify still suggest suitable
    support sure take tell thank thanks thing think thorough together tool try understand unique use used useful
    user using usual various want way well whole wish wonder wondering work working
"""

_GROUPS = """
    create make new add build generate compose / add append insert attach / generate produce draw /
    delete remove erase discard drop destroy strip / update edit modify change alter revise set /
    replace substitute swap / get fetch retrieve obtain read receive / read open view load /
    write save store put persist keep / show list display view render / list enumerate browse /
    search find lookup query locate discover / send post submit deliver publish / copy duplicate clone /
    move relocate transfer / run execute launch invoke / start launch begin initiate / stop halt terminate kill end /
    cancel abort / check verify validate inspect test / compare diff difference / convert transform translate /
    translate translation language / merge combine join / connect link relate relation / allow permit /
    split divide separate / upload push / download pull / summarize summary abstract overview / explain describe /
    calculate compute evaluate calculator math arithmetic / count number total amount / analyze analyse analysis /
    schedule plan arrange create / book reserve reservation booking / buy purchase order shop / pay payment /
    price cost quote rate / message chat text / email mail message inbox / notify notification alert /
    remind reminder / call phone dial telephone / meeting appointment event / calendar schedule agenda event /
    file document / folder directory path / image picture photo photograph / picture drawing illustration /
    video movie clip film / film movie cinema / music song audio track / sound audio voice / speech voice speak /
    website site webpage page web / url link address / navigate visit open / browser web page / internet web online /
    click press tap / type enter fill input / screenshot capture snapshot / map location place /
    location place position coordinate / coordinate latitude longitude geocode / direction route navigation /
    nearby near around close / weather forecast temperature climate / hotel accommodation lodging /
    flight plane airline airplane airport / car vehicle automobile / travel trip journey vacation /
    restaurant food dining / food meal recipe / recipe cook ingredient / stock share equity ticker market /
    crypto cryptocurrency bitcoin coin / currency money exchange forex / company business firm corporation /
    news headline article / article post blog / paper publication research article / research study /
    user account member / person people human / contact person / team group organization / task todo issue /
    issue bug ticket / repository repo git / commit revision / history log / branch fork / database db sql table /
    spreadsheet excel sheet workbook / row record entry / column field / note memo / code source program script /
    app application software / function method / container docker / server host machine / cluster kubernetes /
    error exception failure bug / log trace / deploy release publish / package library module dependency /
    version release / password credential secret / login signin authenticate auth / permission access role /
    key token / chart graph plot diagram / presentation slide powerpoint / text string content / word term /
    comment reply remark / answer reply response respond / question query ask / review rating feedback /
    rating score / game match / league tournament competition / doctor physician / health medical /
    medicine drug medication / disease illness / exercise workout fitness / job career employment /
    school university college / course class lesson / house home property / store shop / product item goods /
    customer client / shipment package parcel delivery / track trace follow / date day time timestamp /
    latest recent newest current / top best popular / popular trending trend / detail information info /
    information info data / statistic stat metric / name title / tag label / category type kind / size length big /
    large big / small little / joke funny humor / quote saying / horoscope astrology zodiac / holiday festival /
    domain dns / country nation / city town / state region province / invoice bill receipt / loan mortgage /
    law legal regulation / security safety / encrypt cipher / hash checksum / compress zip archive / extract unzip /
    extract parse scrape crawl / filter select / sort order / memory remember / relation relationship edge /
    weather rain storm / temperature warm cold heat degree / remember forget memory know / forget delete /
    fact observation / person entity / save commit / undo revert reset / feature branch / clock hour time /
    encyclopedia article / scientific academic scholar paper literature / stay apartment rent room lodging /
    listing stay / xlsx excel spreadsheet / complete done / todo checklist task / pdf document / disk file /
    snapshot commit / background summary / work change / remember observation fact
"""

STOP = frozenset(_STOP.split())
"""They hold sentences together; a text without any others keeps them."""

WEAK = frozenset(_WEAK.split())
"""They ask more than they name: they count, but little."""

GROUPS = tuple(tuple(group.split()) for group in _GROUPS.split("/"))
"""Words that stand for one another; one may be in several groups."""
