"""Campaigns: questions asked of very many random cases; see `campaign.runner`."""
