//! One body, compiled for each instruction set, chosen at run time.

/// Defines `fn $name(level, args...)` whose body is compiled once for each instruction set. The
/// body and everything it calls must inline for the wider instructions to reach it. Inside,
/// `VECTOR_BYTES` is the width of a vector register.
macro_rules! multiversion {
    ($(#[$meta:meta])* $vis:vis fn $name:ident <$($g:ident $(: $b:path)?),*> ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name<$($g $(: $b)?),*>(level: polaris_runtime::cpu::SimdLevel, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<$($g $(: $b)?,)* const VECTOR_BYTES: usize>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi2")]
            fn avx2<$($g $(: $b)?),*>($($arg: $ty),*) $(-> $ret)? {
                body::<$($g,)* 32>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,bmi2")]
            fn avx512<$($g $(: $b)?),*>($($arg: $ty),*) $(-> $ret)? {
                body::<$($g,)* 64>($($arg),*)
            }

            match level {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level was found on this processor when the device was made.
                polaris_runtime::cpu::SimdLevel::Avx512 => unsafe { avx512::<$($g),*>($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                polaris_runtime::cpu::SimdLevel::Avx2 => unsafe { avx2::<$($g),*>($($arg),*) },
                _ => body::<$($g,)* 16>($($arg),*),
            }
        }
    };
}

pub(crate) use multiversion;
