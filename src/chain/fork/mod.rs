//! Local simulation of calls on a pinned block: status, decoded revert, gas, logs and every change that matters to an owner.
