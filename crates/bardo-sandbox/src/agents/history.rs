//! The past of the devnet's agents: feedback, responses and validations of the weeks before the start.
//!
//! Values are on the scale of 0 to 100. The past has a sound agent with many clients, one that gets better and one that
//! gets worse, one that was praised by invented clients, withdrawn feedback, and tags that a reader must not print.

/// Something that happened to an agent.
#[derive(Debug, Clone, Copy)]
pub struct PastEvent {
    /// Time before the market's begin, in hours.
    pub hours: u64,
    /// Key of the agent.
    pub agent: &'static str,
    /// Kind of event.
    pub act: PastAct,
}

/// Kind of past event.
#[derive(Debug, Clone, Copy)]
pub enum PastAct {
    /// Feedback of a client.
    Feedback {
        /// Key of the client's account.
        client: &'static str,
        /// Value in units of 10^-`decimals`.
        value: i128,
        /// Number of decimals of the value.
        decimals: u8,
        /// Tags of the feedback.
        tags: [&'static str; 2],
    },
    /// Revocation of a client's first feedback.
    Revocation {
        /// Key of the client's account.
        client: &'static str,
    },
    /// Response of the agent's owner to a client's first feedback.
    Response {
        /// Key of the client's account.
        client: &'static str,
        /// Address of a file with the response.
        uri: &'static str,
    },
    /// Request for a validation, and the validator's response if there was one.
    Validation {
        /// Key of the validator's account.
        validator: &'static str,
        /// Response from 0 to 100; `None` if the validator has not responded.
        response: Option<u8>,
        /// Method of the validation.
        tag: &'static str,
    },
}

impl PastEvent {
    /// Everything of the event as text, for a digest.
    pub(crate) fn inputs(&self) -> Vec<String> {
        let Self { hours, agent, act } = *self;
        let mut inputs = vec![hours.to_string(), agent.to_owned()];
        match act {
            PastAct::Feedback { client, value, decimals, tags } => {
                inputs.extend([client.to_owned(), value.to_string(), decimals.to_string()]);
                inputs.extend(tags.map(str::to_owned));
            }
            PastAct::Revocation { client } => inputs.push(format!("revoked by {client}")),
            PastAct::Response { client, uri } => inputs.extend([client, uri].map(str::to_owned)),
            PastAct::Validation { validator, response, tag } => {
                inputs.extend([validator.to_owned(), tag.to_owned(), format!("{response:?}")]);
            }
        }
        inputs
    }
}

const fn feedback(
    hours: u64,
    agent: &'static str,
    client: &'static str,
    value: i128,
    decimals: u8,
    tags: [&'static str; 2],
) -> PastEvent {
    PastEvent { hours, agent, act: PastAct::Feedback { client, value, decimals, tags } }
}

const fn validation(
    hours: u64,
    agent: &'static str,
    validator: &'static str,
    response: Option<u8>,
    tag: &'static str,
) -> PastEvent {
    PastEvent { hours, agent, act: PastAct::Validation { validator, response, tag } }
}

const fn revocation(hours: u64, agent: &'static str, client: &'static str) -> PastEvent {
    PastEvent { hours, agent, act: PastAct::Revocation { client } }
}

const fn response(hours: u64, agent: &'static str, client: &'static str, uri: &'static str) -> PastEvent {
    PastEvent { hours, agent, act: PastAct::Response { client, uri } }
}

/// All events, oldest first. Those at the same time are in one block.
pub const PAST: &[PastEvent] = &[
    feedback(600, "old mill", "ada", 91, 0, ["reliable", "yield"]),
    feedback(600, "meridian", "ada", 94, 0, ["reliable", "swap"]),
    feedback(600, "copperline", "ada", 93, 0, ["fast", "bridge"]),
    validation(552, "meridian", "enclave", Some(97), "tee-attestation"),
    feedback(552, "old mill", "bo", 8_900, 2, ["reliable", "yield"]),
    feedback(552, "harbor", "bo", 58, 0, ["slow", "liquidity"]),
    feedback(504, "meridian", "bo", 9_250, 2, ["accurate", "swap"]),
    feedback(504, "copperline", "cleo", 90, 0, ["reliable", "bridge"]),
    feedback(504, "quill", "ada", 70, 0, ["accurate", "research"]),
    feedback(432, "meridian", "cleo", 97, 0, ["fast", "swap"]),
    feedback(432, "nightjar", "dov", 78, 0, ["fast", "signals"]),
    feedback(432, "lantern", "ada", 88, 0, ["reliable", "risk"]),
    validation(360, "lantern", "prover", Some(90), "zkml"),
    feedback(360, "harbor", "cleo", 71, 0, ["reliable", "liquidity"]),
    feedback(360, "copperline", "dov", 74, 0, ["slow", "bridge"]),
    feedback(360, "fathom", "eve", 84, 0, ["accurate", "prices"]),
    feedback(288, "meridian", "dov", 95, 0, ["reliable", "swap"]),
    feedback(288, "nightjar", "eve", 35, 0, ["overpriced", "signals"]),
    feedback(288, "quill", "finn", 7_550, 2, ["accurate", "research"]),
    response(264, "nightjar", "eve", "https://nightjar.example/responses/1.json"),
    feedback(264, "lantern", "finn", 93, 0, ["fast", "risk"]),
    validation(216, "nightjar", "stakers", Some(61), "stake-secured"),
    feedback(216, "harbor", "eve", 83, 0, ["reliable", "liquidity"]),
    feedback(216, "copperline", "eve", 52, 0, ["slow", "bridge"]),
    feedback(168, "meridian", "eve", 91, 0, ["fast", "swap"]),
    feedback(168, "meridian", "ada", 98, 0, ["accurate", "swap"]),
    feedback(168, "fathom", "ada", 88, 0, ["accurate", "prices"]),
    // Invented clients, within one hour.
    feedback(121, "sunrise", "sybil one", 100, 0, ["reliable", "alpha"]),
    feedback(121, "sunrise", "sybil two", 100, 0, ["reliable", "alpha"]),
    feedback(121, "sunrise", "sybil three", 100, 0, ["fast", "alpha"]),
    feedback(120, "sunrise", "sybil four", 100, 0, ["reliable", "alpha"]),
    feedback(120, "sunrise", "sybil five", 100, 0, ["accurate", "alpha"]),
    feedback(120, "harbor", "finn", 90, 0, ["reliable", "liquidity"]),
    feedback(96, "sunrise", "dov", 5, 0, ["fraud", "alpha"]),
    feedback(96, "copperline", "finn", 15, 0, ["fraud", "bridge"]),
    feedback(96, "quill", "cleo", 68, 0, ["slow", "research"]),
    revocation(72, "copperline", "finn"),
    validation(72, "copperline", "stakers", Some(32), "stake-secured"),
    feedback(72, "lantern", "bo", 91, 0, ["reliable", "risk"]),
    feedback(72, "siren", "finn", 10, 0, ["\u{1b}[32mreliable", "\u{202e}tsurt"]),
    feedback(48, "harbor", "ada", 96, 0, ["reliable", "liquidity"]),
    feedback(48, "tally", "dov", 85, 0, ["accurate", "accounting"]),
    feedback(24, "meridian", "finn", 96, 0, ["reliable", "swap"]),
    feedback(24, "copperline", "bo", 38, 0, ["unreliable", "bridge"]),
    feedback(24, "nightjar", "bo", 80, 0, ["accurate", "signals"]),
    response(12, "copperline", "bo", "https://copperline.example/responses/refund.json"),
    validation(6, "sunrise", "enclave", None, ""),
    validation(6, "harbor", "stakers", Some(88), "stake-secured"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::population::AGENTS;

    #[test]
    fn the_past_is_in_order_and_of_known_agents() {
        assert!(PAST.windows(2).all(|pair| pair[0].hours >= pair[1].hours));
        for event in PAST {
            assert!(AGENTS.iter().any(|agent| agent.key == event.agent), "{}", event.agent);
        }
    }
}
