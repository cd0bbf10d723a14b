//! Configuration: TOML, environment, flags, in that order of precedence.
