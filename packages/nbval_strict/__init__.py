"""What nbval leaves out when it compares a re-executed notebook.

Five lines in a project's configuration turn it on:

    [tool.pytest.ini_options]
    addopts = ["-p", "nbval_strict.arithmetic", "-p", "nbval_strict.plugin",
               "--nbval", "--nbval-current-env"]
"""
