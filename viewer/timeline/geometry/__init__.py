"""Timeline arithmetic without Qt: scale, level of detail, lane layout."""
