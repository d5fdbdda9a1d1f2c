"""The parts of a ROCm Profile Data (.rpd) database."""
