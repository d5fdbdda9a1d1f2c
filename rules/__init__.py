"""The diagnosis: which rule found what, how much it can give at most, and where to see it."""

from rules.base import Category, Evidence, Finding, Need, Rule, Severity
from rules.diagnosis import Diagnosis, combined_ceiling, diagnose, diagnosis_of

__all__ = [
    "Category",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Need",
    "Rule",
    "Severity",
    "combined_ceiling",
    "diagnose",
    "diagnosis_of",
]
