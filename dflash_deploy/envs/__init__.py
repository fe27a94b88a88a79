"""An environment of its own for each release of an engine: vLLM and SGLang conflict in one."""
