import subprocess
import sys


def test_types_and_the_package_import_no_torch():
    code = (
        "import sys, dflash_deploy.speculative, dflash_deploy.speculative.types; "
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_there():
    from dflash_deploy import speculative

    for name in speculative.__all__:
        assert callable(getattr(speculative, name))
