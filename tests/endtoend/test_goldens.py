"""Answers of the real models against other engines' (tests/oracle/compare.py holds the limits)."""

import pathlib
import sys
import unittest

from harness import GYRE, GyreTest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import check_models  # noqa: E402

ORACLE_TOKENS = 40  # of the slow f32 mode; `check_models.py` alone reads all


class Goldens(GyreTest):
    def test_smollm2(self):
        self.assertTrue(check_models.check(GYRE, "smollm2", ORACLE_TOKENS))

    def test_gemma(self):
        self.assertTrue(check_models.check(GYRE, "gemma", ORACLE_TOKENS))


if __name__ == "__main__":
    unittest.main()
