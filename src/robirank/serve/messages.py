"""What requests and answers hold: the types from which JSON is read, written and documented."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

#: The most questions of a request, items of a list, and documents to rank, whatever the settings.
MOST = 1_000
_LONGEST_TEXT = 512

Text = Annotated[str, Meta(max_length=_LONGEST_TEXT)]
Id = (
    Annotated[str, Meta(min_length=1, max_length=_LONGEST_TEXT)]
    | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
)
Ids = Annotated[list[Id], Meta(max_length=MOST)]
Number = Annotated[int, Meta(ge=1, le=MOST)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Value = Text | int | float | bool | None
Values = Value | Annotated[list[Value], Meta(max_length=MOST)]
Column = Annotated[str, Meta(min_length=1, max_length=_LONGEST_TEXT)]
_Limit = Annotated[int, Meta(ge=0, le=MOST)]
_FEW = 50  # columns that a request can name


class Request(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """A body of a request; a field that it does not have is an error."""


class RuleSet(Request, frozen=True):
    """What may be recommended, beside the rules of the server, which hold in any case."""

    #: A condition over the table of items, such as ``stock > 0 and brand in (Acme, Brix)``.
    where: Annotated[str, Meta(min_length=1, max_length=2_000)] | None = None
    #: Items with these values alone, by column.
    allow: Annotated[dict[Column, Values], Meta(max_length=_FEW)] | None = None
    #: No items with all of these values.
    deny: Annotated[dict[Column, Values], Meta(max_length=_FEW)] | None = None
    #: Choose among these items alone.
    only: Ids | None = None
    #: Leave these items out.
    exclude: Ids | None = None
    #: So many items of each value of a column, or of one value: ``{"brand:Acme": 2}``.
    at_most: Annotated[dict[Column, _Limit], Meta(max_length=_FEW)] | None = None
    #: So many items at least that have a value: ``{"category:new": 1}``.
    at_least: Annotated[dict[Column, Number], Meta(max_length=_FEW)] | None = None
    #: Items at places, from "1" on.
    pin: (
        Annotated[
            dict[Annotated[str, Meta(pattern="^[1-9][0-9]{0,3}$")], Id], Meta(max_length=_FEW)
        ]
        | None
    ) = None
    #: Of equal scores, the item with the lower value in this column comes first.
    ties: Column | None = None


class Question(Request, frozen=True):
    """Who is to get items, and which. Without user, items and features: someone unknown."""

    #: A user's id. With feedback or `items`, the user's row is found anew from all of it.
    user: Id | None = None
    #: What someone has or likes, by ids, in the order in which it came.
    items: Ids = []
    #: What someone dislikes: never an answer, and a stronger loser than an unknown item.
    disliked: Ids = []
    #: What is known of someone new, where the model was trained with features of users.
    features: Annotated[dict[Column, Values], Meta(max_length=_FEW)] | None = None
    #: The length of the list.
    n: Number = 10
    #: Whether items that the user has can come back.
    seen: Literal["hide", "show"] = "hide"
    rules: RuleSet | None = None
    #: 0 sorts by score alone; towards 1 the items of the list are less alike.
    variety: Share = 0.0
    #: How much of what popularity alone explains is taken off the scores.
    popularity: Share = 0.0
    #: Give the reasons of each score, and what rules took away.
    explain: bool = False
    #: Whether an unknown id is an error, or is passed over.
    unknown: Literal["error", "ignore"] = "error"


Questions = Annotated[list[Question], Meta(min_length=1, max_length=MOST)]


class SimilarTo(Request, frozen=True):
    """An item, and how many like it are wanted."""

    item: Id
    n: Number = 10
    only: Ids | None = None
    exclude: Ids | None = None


class Document(Request, frozen=True):
    """A document to be ranked: numbers by name, or in the order of the model."""

    features: (
        Annotated[dict[Column, float], Meta(max_length=10_000)]
        | Annotated[list[float], Meta(max_length=10_000)]
    )
    id: Id | None = None


class Documents(Request, frozen=True):
    """The documents of one query."""

    documents: Annotated[list[Document], Meta(min_length=1, max_length=MOST)]
    #: Say for each document why it stands above the next.
    explain: bool = False
    #: What a feature is that a document does not name; without it, that is an error.
    missing: float | None = None


class Taken(Request, frozen=True):
    """What a user just took."""

    user: Id
    items: Annotated[list[Id], Meta(min_length=1, max_length=MOST)]


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A body of an answer."""


class Reason(Answer, frozen=True):
    """What one item of the user, or one feature, adds to a score."""

    side: Literal["user", "item"]
    kind: Literal[
        "item", "other items", "feature", "other features", "rest", "interactions", "popularity"
    ]
    effect: float
    id: str | int | UnsetType = UNSET
    name: str | UnsetType = UNSET
    #: The part of the effect that comes from all other items.
    others: float | UnsetType = UNSET


class Scored(Answer, frozen=True):
    """An item of a list."""

    item: str | int
    score: float
    name: str | UnsetType = UNSET
    #: Without an interaction in the table that the model was trained on.
    new: bool = False
    #: They add up to the score, on each side.
    reasons: list[Reason] | UnsetType = UNSET


class Short(Answer, frozen=True):
    """Why a list has fewer items than were wanted, or what rules took away from a full one."""

    wanted: int
    items: int
    #: How many items each rule took away.
    taken_away: dict[str, int]


class Recommended(Answer, frozen=True):
    """The best items, best first."""

    #: The checksum of the model that answered.
    model: str
    #: From what the scores come: the row of the model, one that was found from what was given, or
    #: the numbers of interactions of the items.
    basis: Literal["row", "fold-in", "popular"]
    items: list[Scored]
    rules: Short | UnsetType = UNSET
    #: Unknown ids that were passed over.
    ignored: list[str | int] = []


class Similar(Answer, frozen=True):
    """The items whose factors point the same way, by the cosine of their angle."""

    model: str
    item: str | int
    items: list[Scored]


class Item(Answer, frozen=True):
    """What is known of an item."""

    model: str
    item: str | int
    #: Its number of interactions in the table that the model was trained on.
    taken: int | UnsetType
    new: bool
    similar: list[Scored]
    name: str | UnsetType = UNSET
    #: Its row in the table of items.
    attributes: dict[str, Value | list[Value]] | UnsetType = UNSET


class Found(Answer, frozen=True):
    """An item that a search found."""

    item: str | int
    how: Literal["id", "name", "prefix", "part", "typo"]
    name: str | UnsetType = UNSET
    taken: int | UnsetType = UNSET


class FoundItems(Answer, frozen=True):
    """What a search found, the best first."""

    model: str
    items: list[Found]


class Contrast(Answer, frozen=True):
    """What a feature adds to the score of a document less that of the next one."""

    feature: str
    effect: float
    #: Null where it is missing, and for features that are added up.
    value: float | None
    value_below: float | None


class Ranked(Answer, frozen=True):
    """A document at its place."""

    #: Its place in the request, from 0 on.
    document: int
    score: float
    id: str | int | UnsetType = UNSET
    #: Why it stands above the next one; the effects add up to the difference of the scores.
    above_next: list[Contrast] | UnsetType = UNSET


class Ranking(Answer, frozen=True):
    """The documents, best first."""

    model: str
    documents: list[Ranked]


class Accepted(Answer, frozen=True):
    """Feedback that was kept."""

    items: int
    #: Items that the model does not know, which an update can learn.
    unknown_items: list[str | int] = []
    #: Whether the model knows the user.
    known_user: bool = False


class ModelFacts(Answer, frozen=True):
    """What is served."""

    #: The checksum.
    model: str
    kind: Literal["recommender", "ranker"]
    #: The class of the model.
    name: str
    loaded: str
    #: When the file was written.
    trained: str | UnsetType = UNSET
    file: str | UnsetType = UNSET
    users: int | UnsetType = UNSET
    items: int | UnsetType = UNSET
    factors: int | UnsetType = UNSET
    features: list[str] | UnsetType = UNSET
    #: Columns of the table of items, by type.
    columns: dict[str, str] = {}
    #: Columns of features of users.
    user_features: list[str] = []
    #: What the server can do with it.
    can: list[str] = []
    #: What was saved with the model, such as metrics.
    figures: dict[str, Value | list[Value]] = {}
    parameters: dict[str, Value | list[Value]] = {}


class State(Answer, frozen=True):
    """Whether the server lives, or is ready."""

    status: Literal["ok"]
    model: str | UnsetType = UNSET


class ProblemBody(msgspec.Struct, frozen=True, omit_defaults=True, rename={"kind": "type"}):
    """An error: problem+json of RFC 9457."""

    #: A stable code.
    code: str
    title: str
    status: int
    detail: str
    kind: str = "about:blank"
    #: Where in the request, such as ``$.questions[3].n``.
    field: str | UnsetType = UNSET
    request: str | UnsetType = UNSET
