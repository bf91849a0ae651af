"""Mentions in unmarked text: which words of a text name an entity, found without any model or by one."""
