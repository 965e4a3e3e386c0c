"""Models that tests share: made at their first use, once in each process, never when a file is imported."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any


class Models(Mapping[str, Any]):
    """Name -> model, each made by its function when it is first asked for.

    Parametrize by name and look the model up in the test:

        MODELS = Models(plain=lambda: xgb.XGBRegressor().fit(X, Y))

        @pytest.mark.parametrize("name", MODELS)
        def test_something(name):
            model = MODELS[name]
    """

    def __init__(self, **makers: Callable[[], Any]):
        self._makers = makers
        self._make = cache(lambda name: makers[name]())

    def __getitem__(self, name: str) -> Any:
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)
