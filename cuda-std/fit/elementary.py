"""Fits the polynomials of src/elementary.rs and prints them: src/elementary/polynomials.rs.

Needs mpmath. Each polynomial interpolates its function at the Chebyshev nodes of its interval in 60-digit arithmetic,
which is within a small factor of the best possible; the tests of elementary.rs measure what that comes to.
"""
from mpmath import mp, mpf, cos, exp, pi, expm1, log, log1p, erf, erfc, tanh, sqrt, matrix, lu_solve

mp.dps = 60


def nodes(low, high, count):
    middle, half = (mpf(high) + low) / 2, (mpf(high) - low) / 2
    return [middle + half * cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def fit(function, low, high, degree):
    """Coefficients, constant first."""
    xs = nodes(low, high, degree + 1)
    a = matrix(degree + 1, degree + 1)
    b = matrix(degree + 1, 1)
    for i, x in enumerate(xs):
        b[i] = function(x)
        for j in range(degree + 1):
            a[i, j] = x**j
    return list(lu_solve(a, b))


def worst(function, coefficients, low, high, weight):
    most = 0
    for x in nodes(low, high, 500):
        value = sum(c * x**i for i, c in enumerate(coefficients))
        most = max(most, abs((value - function(x)) * weight(x)))
    return float(most)


def show(name, kind, what, function, low, high, degree, weight=lambda x: 1):
    coefficients = fit(function, low, high, degree)
    error = worst(function, coefficients, low, high, weight)
    print(f"    /// {what}; error {error:.1e} of the result.")
    digits = ", ".join(mp.nstr(c, 10 if kind == "f32" else 18) for c in coefficients)
    print(f"    {name}({kind}): {digits};")


print("polynomials! {")
half_ln2 = log(2) / 2 * mpf("1.0001")
# (e^r - 1 - r) / r^2.
tail = lambda r: (expm1(r) - r) / r**2 if abs(r) > mpf(10) ** -20 else mpf(1) / 2 + r / 6
reach = "|r| ≤ ln 2 / 2"
for kind, degree in (("f32", 5), ("f64", 10)):
    show(f"exp_tail_{kind}", kind, f"(eʳ - 1 - r) / r², {reach}", tail, -half_ln2, half_ln2, degree, lambda r: r * r)


def artanh_tail(z):
    """(ln((1 + s) / (1 - s)) - 2 s) / s^3 with z = s^2."""
    z = max(z, mpf(10) ** -24)
    s = sqrt(z)
    return ((log1p(s) - log1p(-s)) / s - 2) / z


top = ((sqrt(2) - 1) / (sqrt(2) + 1)) ** 2 * mpf("1.0001")
for kind, degree in (("f32", 3), ("f64", 6)):
    what = "(2 artanh s - 2 s) / s³ in s², for 1/√2 to √2"
    show(f"ln_tail_{kind}", kind, what, artanh_tail, 0, top, degree, lambda z: z)


def odd_tail(function, z):
    """f(x) / x - 1 with z = x^2."""
    x = sqrt(z)
    return function(x) / x - 1


tanh_tail = lambda z: odd_tail(tanh, max(z, mpf(10) ** -24)) / max(z, mpf(10) ** -24)
for kind, degree in (("f32", 5), ("f64", 11)):
    what = "(tanh x - x) / x³ in x², |x| ≤ 0.6"
    show(f"tanh_tail_{kind}", kind, what, tanh_tail, 0, mpf("0.361"), degree, lambda z: z)

erf_tail = lambda z: odd_tail(erf, max(z, mpf(10) ** -40))
for kind, degree in (("f32", 6), ("f64", 12)):
    show(f"erf_tail_{kind}", kind, "erf x / x - 1 in x², |x| ≤ 1", erf_tail, 0, 1, degree)

for kind, name, low, high, degree in (
    ("f32", "erfc_log_f32", 1, 4, 8),
    ("f64", "erfc_log_low_f64", 1, 2, 14),
    ("f64", "erfc_log_middle_f64", 2, 3.5, 14),
    ("f64", "erfc_log_high_f64", 3.5, 6, 14),
):
    middle = (mpf(low) + high) / 2
    function = lambda t: -log(erfc(t + middle))
    what = f"-ln erfc x in x - {mp.nstr(middle, 4)}, {low} ≤ x ≤ {high}"
    show(name, kind, what, function, low - middle, high - middle, degree, lambda t: erfc(t + middle))

# e^(a^2) erfc a, over t = 1 / (1 + p a), which is near 1 at 0 and near 2 / a far away.
for kind, name, slope, top, degree in (
    ("f32", "erfc_scaled_tail_f32", "0.5", 11, 11),
    ("f64", "erfc_scaled_tail_f64", "0.35", 29, 24),
    ("f32", "erfc_scaled_tail_approx", "0.45", 11, 7),
):
    p = mpf(slope)
    scaled = lambda s: (lambda t: (lambda a: exp(a * a) * erfc(a))((1 / t - 1) / p) / t)(s + mpf("0.5"))
    what = f"e^(a²) erfc a / t in t - 0.5, t = 1 / (1 + {slope} a), 0 ≤ a ≤ {top}"
    low = 1 / (1 + p * top) - mpf("0.5")
    show(name, kind, what, scaled, low, mpf("0.5"), degree, lambda s: 1 / scaled(s))
print("}")
