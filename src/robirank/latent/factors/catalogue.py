"""What a fitted model can recommend: items that are added without a fit, and removed for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from robirank.data.feature_rows import align_features, check_features
from robirank.data.features import Features
from robirank.errors import ArgumentError
from robirank.latent.factors.factors import Factors, Side
from robirank.latent.factors.questions import Names


class CatalogueMixin:
    """`add_items` and `remove_items` of a `FactorModel`."""

    factors_: Factors
    _asked: CatalogueMixin | None = None  # of which model this one is `by_id`

    if TYPE_CHECKING:

        def _check_fitted(self) -> None: ...

        def _names(self, by_text: bool = False, /, **arguments: Any) -> Names: ...

    def add_items(self, features: Features) -> Self:
        """Let the catalogue grow by items that are known by their features alone, without a fit.

        A new item gets the factors that its features say, and `recommend` ranks it beside the
        others. The features of an item that the model has are replaced; if it has no interactions,
        its factors are too.

        Parameters
        ----------
        features : Features
            With the columns of the fit. Ids are outside ids; of a model that was fitted to a
            matrix, positions from the number of items on.

        Returns
        -------
        self

        Examples
        --------
        >>> import robirank as rr
        >>> plays = rr.Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
        >>> kinds = rr.Features.from_frame({"id": ["tea", "rum"], "kind": ["hot", "strong"]})
        >>> model = rr.LatentRoBiRank(factors=2, random_state=0)
        >>> model = model.fit(plays, show_progress=False, item_features=kinds)
        >>> model = model.add_items(rr.Features.from_frame({"id": ["gin"], "kind": ["strong"]}))
        >>> sorted(model.recommend("bob", plays, N=2)[0])
        ['gin', 'rum']
        """
        self._check_fitted()
        items = self.factors_.items
        if items.centres is None or not isinstance(items, Side):
            raise ArgumentError(
                "features",
                "cannot be added: the model was fitted without features of items. Give "
                "item_features to fit",
            )
        check_features("features", features)
        n, features_before = len(items), items.centres.features
        aligned = align_features("features", features, items.ids, n, features_before)
        assert aligned is not None
        self._offer(self.factors_.with_items(aligned.rows, aligned.ids))
        return self

    def remove_items(self, items: ArrayLike) -> Self:
        """Take items out of the catalogue, for good; `filter_items` leaves them out of one answer.

        Parameters
        ----------
        items : array of int or of str
            Positions or outside ids. The positions of the items after them change.

        Returns
        -------
        self
        """
        names = self._names(items=items).items
        stays = np.ones(len(self.factors_.items), bool)
        stays[names.positions("items", names.several("items", items)[0])] = False
        if not stays.any():
            raise ArgumentError("items", "must leave at least one item in the model")
        self._offer(self.factors_.of_items(np.flatnonzero(stays)))
        return self

    def _offer(self, factors: Factors) -> None:
        """Become a model of other items; so does the model that this one is `by_id` of."""
        self.factors_ = factors
        if self._asked is not None:
            self._asked._offer(factors)
