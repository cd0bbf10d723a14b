//! The Golem: what it is, how it is doing, what it remembers, and how it acts through eight tools.
//!
//! Not here: the tools it acts through (`tools`), and everything that stands between a wish and a signature
//! (`safety`): a Golem has no way around either.
//!
//! | room | holds |
//! |---|---|
//! | `archetype` | roles, their tools, and who may hand work to whom |
//! | `phase` | from vitals to a phase |
//! | `sprite` | its body on the screen |

pub mod archetype;
pub mod phase;
pub mod sprite;
