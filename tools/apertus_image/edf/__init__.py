"""Environment definition files (EDF) of CSCS's Container Engine: writing and linting them."""
