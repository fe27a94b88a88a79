"""The embedded OpenAI-compatible server: started by argv, `python -m dflash_deploy.server`."""
