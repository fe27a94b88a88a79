"""`dflash train`: from a target and prompts to a draft that serves.

What the command line reads imports no torch: recipe, prompts, estimate. The work itself is a
process of its own, started by argv as every engine is: `python -m dflash_deploy.train FOLDER`.
"""
