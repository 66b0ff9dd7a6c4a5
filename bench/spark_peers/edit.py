"""Which rows are deleted and updated, in SQL for the contenders and in numbers for what is expected."""

from __future__ import annotations

DELETE_EVERY, DELETE_AT = 100, 7
UPDATE_EVERY, UPDATE_AT = 10, 3
DELETED = f"id % {DELETE_EVERY} = {DELETE_AT}"
UPDATED = f"id % {UPDATE_EVERY} = {UPDATE_AT}"
VALUES = {"quantity": "quantity + 1", "channel": "'changed'"}
