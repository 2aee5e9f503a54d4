//! `cpuid`: processor model and hypervisor.

use schemars::JsonSchema;
use serde::Serialize;

/// Processor identification (Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Processor {
    /// Vendor, for instance "GenuineIntel".
    pub vendor: String,
    /// Brand name; under a hypervisor often chosen by its operator.
    pub brand: String,
    /// Display family: base plus extended family.
    pub family: u32,
    /// Display model: base and extended model.
    pub model: u32,
    /// Stepping.
    pub stepping: u32,
    /// Number of physical address bits, where the processor reports it.
    pub physical_address_bits: Option<u32>,
    /// Signature of the hypervisor, if any; empty when the hypervisor has none.
    pub hypervisor: Option<String>,
}

impl Processor {
    /// Queries this processor; `None` on architectures without `cpuid`.
    pub fn read() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Some(x86::read());
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::{__cpuid, CpuidResult};

    use super::Processor;

    fn cpuid(leaf: u32) -> CpuidResult {
        #[allow(unused_unsafe, reason = "a safe function in later compilers than the oldest that is supported")]
        // SAFETY: every x86-64 processor has the instruction, which writes no memory.
        unsafe {
            __cpuid(leaf)
        }
    }

    pub(super) fn read() -> Processor {
        let identity = cpuid(0);
        let version = cpuid(1);
        let (family, model) = family_model(version.eax);
        let highest_extended = cpuid(0x8000_0000).eax;
        Processor {
            vendor: text(&[identity.ebx, identity.edx, identity.ecx]),
            brand: brand(highest_extended),
            family,
            model,
            stepping: version.eax & 0xf,
            physical_address_bits: (highest_extended >= 0x8000_0008).then(|| cpuid(0x8000_0008).eax & 0xff),
            hypervisor: (version.ecx >> 31 & 1 == 1).then(|| {
                let CpuidResult { ebx, ecx, edx, .. } = cpuid(0x4000_0000);
                text(&[ebx, ecx, edx])
            }),
        }
    }

    /// Display family and model of CPUID.1:EAX.
    pub(super) fn family_model(eax: u32) -> (u32, u32) {
        let (base_family, base_model) = (eax >> 8 & 0xf, eax >> 4 & 0xf);
        let family = if base_family == 0xf { base_family + (eax >> 20 & 0xff) } else { base_family };
        let model = if matches!(base_family, 0x6 | 0xf) { base_model | (eax >> 16 & 0xf) << 4 } else { base_model };
        (family, model)
    }

    fn brand(highest_extended: u32) -> String {
        if highest_extended < 0x8000_0004 {
            return String::new();
        }
        let words: Vec<u32> = (0x8000_0002..=0x8000_0004u32)
            .map(cpuid)
            .flat_map(|CpuidResult { eax, ebx, ecx, edx }| [eax, ebx, ecx, edx])
            .collect();
        text(&words)
    }

    fn text(words: &[u32]) -> String {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).filter(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn extended_family_and_model_are_added_where_the_manuals_say() {
            assert_eq!(family_model(0x0005_0657), (6, 0x55)); // Cascade Lake
            assert_eq!(family_model(0x00a2_0f10), (0x19, 0x21)); // Zen 3
            assert_eq!(family_model(0x0000_0543), (5, 4)); // Pentium MMX: no extended model
        }

        #[test]
        fn this_processor_has_a_vendor() {
            let processor = read();
            assert_eq!(processor.vendor.len(), 12, "{processor:?}");
        }
    }
}
