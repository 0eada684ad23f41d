// Elements of every type in global memory, and the types they are computed in.
//
// LOAD(t)(p, i) and STORE(t)(p, i, v) read and write element i of type t; LOAD4 and STORE4 read
// and write four elements from i on, which must be a multiple of four: the access is one wide one.
// Values travel as float, double, int or long: STORE takes any of them.
//
// Half precision is kept in memory and computed in float: vload_half and vstore_half are part of
// every OpenCL, arithmetic on half is not. u16 stands for any two bytes that are only moved.

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define STORAGE(t) PASTE(storage_, t)
#define LOAD(t) PASTE(load_, t)
#define LOAD4(t) PASTE(load4_, t)
#define STORE(t) PASTE(store_, t)
#define STORE4(t) PASTE(store4_, t)
#define VECTOR4(c) PASTE(c, 4)
#define VECTOR8(c) PASTE(c, 8)
#define CONVERT4(c) PASTE(convert_, PASTE(c, 4))

#define storage_f32 float
#define storage_f64 double
#define storage_f16 half
#define storage_bf16 ushort
#define storage_i8 char
#define storage_u8 uchar
#define storage_u16 ushort
#define storage_i32 int
#define storage_i64 long
#define storage_bool uchar

#define load_f32(p, i) ((p)[i])
#define load_f64(p, i) ((p)[i])
#define load_f16(p, i) vload_half(i, p)
#define load_bf16(p, i) as_float((uint)((p)[i]) << 16)
#define load_i8(p, i) ((int)(p)[i])
#define load_u8(p, i) ((int)(p)[i])
#define load_u16(p, i) ((int)(p)[i])
#define load_i32(p, i) ((p)[i])
#define load_i64(p, i) ((p)[i])
#define load_bool(p, i) ((int)((p)[i] != 0))

#define load4_f32(p, i) (*(__global const float4 *)((p) + (i)))
#define load4_f64(p, i) (*(__global const double4 *)((p) + (i)))
#define load4_f16(p, i) vloada_half4((i) / 4, p)
#define load4_bf16(p, i) as_float4(convert_uint4(*(__global const ushort4 *)((p) + (i))) << (uint4)(16))
#define load4_i8(p, i) convert_int4(*(__global const char4 *)((p) + (i)))
#define load4_u8(p, i) convert_int4(*(__global const uchar4 *)((p) + (i)))
#define load4_u16(p, i) convert_int4(*(__global const ushort4 *)((p) + (i)))
#define load4_i32(p, i) (*(__global const int4 *)((p) + (i)))
#define load4_i64(p, i) (*(__global const long4 *)((p) + (i)))
#define load4_bool(p, i) (-(convert_int4(*(__global const uchar4 *)((p) + (i))) != (int4)(0)))

// Where an element lies: `rest`, its number in row-major order, becomes its index along each of the first `rank` axes,
// the innermost first. AT_AXIS(k) of the program says what is done with `index` along axis k of `axis_length` elements.
#define WALK_AXIS(k) \
    if (rank > k) { \
        const INDEX axis_length = lengths.s##k; \
        const INDEX index = rest % axis_length; \
        rest /= axis_length; \
        AT_AXIS(k) \
    }
#define WALK_AXES(most) WALK_FIRST(most)
#define WALK_FIRST(most) WALK_AXES_##most
#define WALK_AXES_4 WALK_AXIS(3) WALK_AXIS(2) WALK_AXIS(1) WALK_AXIS(0)
#define WALK_AXES_7 WALK_AXIS(6) WALK_AXIS(5) WALK_AXIS(4) WALK_AXES_4
#define WALK_AXES_8 WALK_AXIS(7) WALK_AXES_7

// Rounds to the nearest upper half of a float, ties to even; NaN stays NaN.
ushort bf16_bits(float value)
{
    const uint bits = as_uint(value);
    const uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (ushort)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

#define store_f32(p, i, v) ((p)[i] = (float)(v))
#define store_f64(p, i, v) ((p)[i] = (double)(v))
#define store_f16(p, i, v) vstore_half_rte((float)(v), i, p)
#define store_bf16(p, i, v) ((p)[i] = bf16_bits((float)(v)))
#define store_i8(p, i, v) ((p)[i] = (char)(v))
#define store_u8(p, i, v) ((p)[i] = (uchar)(v))
#define store_u16(p, i, v) ((p)[i] = (ushort)(v))
#define store_i32(p, i, v) ((p)[i] = (int)(v))
#define store_i64(p, i, v) ((p)[i] = (long)(v))
#define store_bool(p, i, v) ((p)[i] = (uchar)((v) != 0))

#define store4_f32(p, i, v) (*(__global float4 *)((p) + (i)) = convert_float4(v))
#define store4_f64(p, i, v) (*(__global double4 *)((p) + (i)) = convert_double4(v))
#define store4_f16(p, i, v) vstorea_half4_rte(convert_float4(v), (i) / 4, p)
#define store4_bf16(p, i, v) (*(__global ushort4 *)((p) + (i)) = \
    (ushort4)(bf16_bits((v).s0), bf16_bits((v).s1), bf16_bits((v).s2), bf16_bits((v).s3)))
#define store4_i8(p, i, v) (*(__global char4 *)((p) + (i)) = convert_char4(v))
#define store4_u8(p, i, v) (*(__global uchar4 *)((p) + (i)) = convert_uchar4(v))
#define store4_u16(p, i, v) (*(__global ushort4 *)((p) + (i)) = convert_ushort4(v))
#define store4_i32(p, i, v) (*(__global int4 *)((p) + (i)) = convert_int4(v))
#define store4_i64(p, i, v) (*(__global long4 *)((p) + (i)) = convert_long4(v))
#define store4_bool(p, i, v) (*(__global uchar4 *)((p) + (i)) = \
    (uchar4)((v).s0 != 0, (v).s1 != 0, (v).s2 != 0, (v).s3 != 0))

// The error function without branches, exp or division: drivers have slower ones that may even
// diverge. To 3 units in the last place.
float erf_float(float x)
{
    const float t = x * x;
    float small = -9.680132e-6f;
    small = small * t + 1.1270543e-4f;
    small = small * t - 8.484711e-4f;
    small = small * t + 5.221075e-3f;
    small = small * t - 2.6865446e-2f;
    small = small * t + 0.11283783f;
    small = small * t - 0.37612638f;
    small = (small * t + 1.1283792f) * x;
    // Beyond 4 it is 1 to the last bit. NaN stays.
    const float y = fabs(x) > 4.0f ? 4.0f : fabs(x);
    // The fourth root of what is missing to 1.
    float root = -2.278181e-5f;
    root = root * y + 1.854664e-4f;
    root = root * y + 7.287147e-4f;
    root = root * y - 1.258399e-2f;
    root = root * y + 4.345305e-2f;
    root = root * y - 1.6994189e-2f;
    root = root * y - 9.3749546e-2f;
    root = root * y - 0.29338518f;
    root = root * y + 1.002138f;
    root *= root;
    return fabs(x) < 1.0f ? small : copysign(1.0f - root * root, x);
}
#define erf_double(x) erf(x)
#define ERF(c) PASTE(erf_, c)

// The share of a normal distribution that lies below x: half the work of the error function.
float normal_cdf_float(float x)
{
    const float y = fabs(x);
    // The eighth root of the share beyond the magnitude.
    float root = -2.9852887e-7f;
    root = root * y + 7.492789e-6f;
    root = root * y - 6.0181534e-5f;
    root = root * y + 3.3602173e-5f;
    root = root * y + 1.5062846e-3f;
    root = root * y - 6.7443156e-4f;
    root = root * y - 3.1926546e-2f;
    root = root * y - 9.145782e-2f;
    root = root * y + 0.91700405f;
    root *= root;
    root *= root;
    // The fit holds up to 5.5, where next to nothing is left.
    const float beyond = y > 5.5f ? 0.0f : root * root;
    return x > 0.0f ? 1.0f - beyond : beyond;
}
#define normal_cdf_double(x) (0.5 + 0.5 * erf((x) * 0.70710678118654752))
#define NORMAL_CDF(c) PASTE(normal_cdf_, c)
