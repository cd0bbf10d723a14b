//! Tokens that do not behave: fees, rebasing, callbacks, false returns, upgrades between preview and commit.
