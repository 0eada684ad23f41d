//! SIMD levels of the processor, and CPUID for systems without Linux's files.

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
pub(super) use x86::{caches, frequency_mhz, name};

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
pub(super) use silent::{caches, frequency_mhz, name};

/// The detection macros take literals only, hence a macro and not a loop over names.
#[allow(unused_macros, reason = "unused on architectures without a list below")]
macro_rules! detected {
    ($is_detected:ident: $($feature:tt)+) => {
        [$(($feature, std::arch::$is_detected!($feature))),+]
            .into_iter()
            .filter_map(|(name, found)| found.then_some(name))
            .collect()
    };
}

/// The SIMD extensions this processor and operating system support together.
pub(super) fn simd_levels() -> Vec<&'static str> {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return detected!(is_x86_feature_detected:
        "sse4.2" "avx" "avx2" "fma" "f16c" "avxvnni" "avx512f" "avx512bw" "avx512dq"
        "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16");
    #[cfg(target_arch = "aarch64")]
    return detected!(is_aarch64_feature_detected:
        "neon" "fp16" "dotprod" "i8mm" "bf16" "sve" "sve2");
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
    return Vec::new();
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
mod x86 {
    use raw_cpuid::{CacheType, CpuId};

    use crate::hardware::cpu::{Cache, CacheKind, plausible_mhz};
    use crate::hardware::system_files::printable;

    pub(in crate::hardware) fn name() -> Option<String> {
        let brand = CpuId::new().get_processor_brand_string()?;
        Some(printable(brand.as_str())).filter(|name| !name.is_empty())
    }

    pub(in crate::hardware) fn frequency_mhz() -> Option<u32> {
        let info = CpuId::new().get_processor_frequency_info()?;
        plausible_mhz(f64::from(info.processor_max_frequency()))
    }

    pub(in crate::hardware) fn caches() -> Vec<Cache> {
        let Some(parameters) = CpuId::new().get_cache_parameters() else { return Vec::new() };
        let all_cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
        parameters
            .filter_map(|cache| {
                let kind = match cache.cache_type() {
                    CacheType::Data => CacheKind::Data,
                    CacheType::Instruction => CacheKind::Instruction,
                    CacheType::Unified => CacheKind::Unified,
                    CacheType::Null | CacheType::Reserved => return None,
                };
                let factors = [
                    cache.sets(),
                    cache.associativity(),
                    cache.physical_line_partitions(),
                    cache.coherency_line_size(),
                ];
                let bytes =
                    factors.iter().fold(1, |product: u64, n| product.saturating_mul(*n as u64));
                // CPUID reserves ids for CPUs that a model may not have: an upper bound.
                let shared_by = cache.max_cores_for_cache().clamp(1, all_cpus);
                Some(Cache { level: cache.level(), kind, bytes, shared_by })
            })
            .collect()
    }
}

/// Other processors have no instruction that describes them to a program.
#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
mod silent {
    use crate::hardware::cpu::Cache;

    pub(in crate::hardware) fn name() -> Option<String> {
        None
    }

    pub(in crate::hardware) fn frequency_mhz() -> Option<u32> {
        None
    }

    pub(in crate::hardware) fn caches() -> Vec<Cache> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_build_on_each_other() {
        let levels = simd_levels();
        let has = |name| levels.contains(&name);
        assert!(!has("avx2") || has("avx"), "{levels:?}");
        assert!(!has("avx512vnni") || has("avx512f"), "{levels:?}");
        assert!(!has("dotprod") || has("neon"), "{levels:?}");
    }
}
