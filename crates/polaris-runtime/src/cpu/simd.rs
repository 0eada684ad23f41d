//! Which vector instructions this process may use, found when it starts.

use serde::Serialize;

/// The instruction sets Polaris has code for, in rising order on each architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SimdLevel {
    /// Whatever the compiler's baseline has.
    Portable,
    /// 128-bit vectors of ARM; part of the baseline there.
    Neon,
    /// 256-bit vectors with fused multiply-add and half-precision conversion.
    Avx2,
    /// 512-bit vectors with byte and word operations.
    Avx512,
}

impl SimdLevel {
    /// The best level of this processor. `POLARIS_SIMD=portable|avx2` lowers it, for debugging
    /// and for testing every path on one machine.
    pub fn detect() -> Self {
        let found = Self::of_processor();
        let wanted = match std::env::var("POLARIS_SIMD").as_deref() {
            Ok("portable") => Self::Portable,
            Ok("avx2") => Self::Avx2,
            _ => found,
        };
        found.min(wanted)
    }

    #[cfg(target_arch = "x86_64")]
    fn of_processor() -> Self {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi2");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq");
        match (avx2, avx512) {
            (true, true) => Self::Avx512,
            (true, false) => Self::Avx2,
            _ => Self::Portable,
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn of_processor() -> Self {
        Self::Neon
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn of_processor() -> Self {
        Self::Portable
    }

    /// How many `f32` fit in one vector.
    pub const fn f32_lanes(self) -> usize {
        match self {
            Self::Portable | Self::Neon => 4,
            Self::Avx2 => 8,
            Self::Avx512 => 16,
        }
    }
}
