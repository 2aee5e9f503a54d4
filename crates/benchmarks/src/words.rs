//! Closed sets of words in reports.

/// Defines an enum in which each variant has one word, for reports and text.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:tt),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// Returns its word in reports.
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
    /// The benchmark of a report.
    Benchmark {
        /// Page-frame allocators in comparison.
        Frames = "frames",
        /// The simulated DRAM channel.
        Sim = "sim",
        /// The real-time analyses.
        Sched = "sched",
        /// The state machine of bandwidth regulation.
        Guard = "guard",
        /// The regulator on this machine.
        GuardLive = "guard-live",
        /// Discovery of mappings, compared with published detectors.
        Probe = "probe",
        /// The same with one step omitted at a time.
        ProbeAblation = "probe-ablation",
        /// Programs with and without colors.
        Run = "run",
    }
}
