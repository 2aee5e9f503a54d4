//! Closed sets of words in reports.

/// Defines an enum of which each variant has one word, in reports and for people.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:tt),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// Gives its word, as in reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word),+
                }
            }
        }
    };
}

pub(crate) use words;

words! {
    /// The benchmark that a report is of.
    Benchmark {
        /// Page-frame allocators beside each other.
        Frames = "frames",
        /// The simulated DRAM channel.
        Sim = "sim",
        /// The real-time analyses.
        Sched = "sched",
        /// The state machine of bandwidth regulation.
        Guard = "guard",
        /// The regulator on this machine.
        GuardLive = "guard-live",
        /// Discovery of mappings, beside published detectors.
        Probe = "probe",
        /// The same without one of its steps at a time.
        ProbeAblation = "probe-ablation",
        /// Programs in color, beside the same programs without.
        Run = "run",
    }
}
