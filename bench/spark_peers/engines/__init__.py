"""The contenders: each is the same few verbs, in the configuration that its documentation recommends."""
