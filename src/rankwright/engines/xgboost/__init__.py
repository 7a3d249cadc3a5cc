"""XGBoost as an engine. Only `grower` imports the library; a saved model predicts and explains without it.

No other folder knows XGBoost's trees and the names of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rankwright.engines.contract import Engine, Growth, Needs
from rankwright.engines.library import loading_problems
from rankwright.engines.xgboost import parameters
from rankwright.engines.xgboost.forest import XGBoostForest

if TYPE_CHECKING:
    from rankwright.engines.xgboost.grower import Grower


class XGBoost:
    """The engine; `rankwright.engines.contract.Engine` describes each name."""

    name = "xgboost"
    file_name = "trees.json"
    several_machines = True

    @property
    def version(self) -> str:
        """Version of the library."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("xgboost")
        except PackageNotFoundError:  # the smaller package of the same module
            return version("xgboost-cpu")

    def check(self, params: Mapping[str, Any], needs: Needs) -> list[str]:
        """Return the reasons why ``engine_params``, or the engine itself, cannot be used."""
        problems = loading_problems("xgboost", "rankwright[xgboost]", other_engine="lightgbm")
        return problems or parameters.RULES.check(params, needs)

    def decided_options(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the number of bins if the parameters set it."""
        return parameters.decided_options(params)

    def grower(self, growth: Growth) -> Grower:
        """Prepare to grow trees."""
        from rankwright.engines.xgboost.grower import Grower

        return Grower(growth)

    def load(self, content: bytes) -> XGBoostForest:
        """Read a model file."""
        return XGBoostForest.load(content)

    def booster(self, content: bytes) -> Any:
        """Return a model of XGBoost itself."""
        import xgboost

        booster = xgboost.Booster()
        booster.load_model(bytearray(content))
        return booster


ENGINE: Engine = XGBoost()
