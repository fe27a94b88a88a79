"""Recipes of vllm-project/recipes, both ways: a DFlash mode as a recipe of ours, a plan as theirs.

Their file has `model` (id, base arguments, least release), `features` (named lists of arguments;
`spec_decoding` with one list or several `modes`) and `variants` of weights, of which `default` is
the one that is served unless told. Pure.
"""

from dflash_deploy.vllm_recipe.importing import A_RECIPE, Imported, imported
from dflash_deploy.vllm_recipe.modes import Mode, dflash_modes
from dflash_deploy.vllm_recipe.rest import LeftOut
from dflash_deploy.vllm_recipe.writing import as_recipe

__all__ = ["A_RECIPE", "Imported", "LeftOut", "Mode", "as_recipe", "dflash_modes", "imported"]
