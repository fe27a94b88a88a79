"""DFlash speculative decoding, deployed: a model zoo, and servers that provably speculate."""

__version__ = "0.1.0"
