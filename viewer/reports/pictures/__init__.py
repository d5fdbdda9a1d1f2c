"""Pictures for pages, as SVG made without Qt: a stretch of the timeline, and charts; every text in them is escaped."""
