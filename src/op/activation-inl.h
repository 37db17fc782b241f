// The formula of each activation, and the only place where it is written. Plain text without includes and
// without a guard: it is included inside the namespace (and, for vector code, inside the target region) of
// each user, and pasted in front of generated CUDA code. EPILOGUE_FN is what stands before a function there:
// nothing, or __host__ __device__. T is float, double or a vector type with the
// arithmetic operators, `<`, a constructor from double, and exp, select, at_least, at_most and multiply_add
// of its own; for float and double exp and erfc come from <math.h>, included beforehand. NaN gives NaN
// everywhere; at
// +-infinity the value is the limit.

template <class T>
EPILOGUE_FN T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}
template <class T>
EPILOGUE_FN T at_least(T x, T lowest) {
  return x < lowest ? lowest : x;
}
template <class T>
EPILOGUE_FN T at_most(T x, T highest) {
  return highest < x ? highest : x;
}
template <class T>
EPILOGUE_FN T multiply_add(T a, T b, T c) {
  return a * b + c;
}

template <class T>
EPILOGUE_FN T relu(T x) {
  return at_least(x, T(0.0));
}

// Far below zero exp is infinite and the quotient -0; the bound keeps -infinity out of infinity / infinity.
template <class T>
EPILOGUE_FN T silu(T x) {
  x = at_least(x, T(-1e4));
  return x / (T(1.0) + exp(-x));
}

// x/2 (1 + tanh z) with z = sqrt(2/pi) (x + 0.044715 x^3) is x / (1 + exp(-2z)), which does not cancel for x
// < 0.
template <class T>
EPILOGUE_FN T gelu_tanh(T x) {
  x = at_least(x, T(-1e4));
  const T minus_2z = x * multiply_add(x * x, T(-0.07135481627260025), T(-1.5957691216057308));
  return x / (T(1.0) + exp(minus_2z));
}

// The normal distribution's upper tail 1 - Phi(y) for y in [0, 40]: exp(-y^2/2) t Q(t) with t = 1/(1 + 0.35
// y) and Q the minimax polynomial for y <= 14.5 (relative error 3.2e-8), beyond which the tail is 0 in f32.
// The rounding error of y^2 returns as a factor, since exp would magnify it.
template <class T>
EPILOGUE_FN T normal_tail(T y) {
  const T square = y * y, lost = multiply_add(y, y, -square);
  const T t = T(1.0) / multiply_add(y, T(0.35), T(1.0));
  T q = T(-0.02915783478);
  q = multiply_add(q, t, T(0.1440307054));
  q = multiply_add(q, t, T(-0.2558386285));
  q = multiply_add(q, t, T(0.1593193383));
  q = multiply_add(q, t, T(-0.02321215265));
  q = multiply_add(q, t, T(0.1055524342));
  q = multiply_add(q, t, T(0.1198213012));
  q = multiply_add(q, t, T(0.139863514));
  q = multiply_add(q, t, T(0.1396213069));
  const T bell = exp(square * T(-0.5));
  return t * q * multiply_add(bell, lost * T(-0.5), bell);
}
EPILOGUE_FN inline double normal_tail(double y) { return 0.5 * erfc(y * 0.70710678118654752); }

// x Phi(x), as relu(x) minus the tail's share: accurate relative to the result on both sides of zero.
template <class T>
EPILOGUE_FN T gelu(T x) {
  const T y = at_most(select(x < T(0.0), -x, x), T(40.0));
  return relu(x) - y * normal_tail(y);
}
