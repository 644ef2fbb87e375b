// Calls that double at each level: refused at the call with which the limit is exceeded.
#include <core.p4>

control Proto(inout bit<8> x);
package Pack(Proto a, Proto b, Proto c);

bit<8> f0(in bit<8> v) { return v + 1; }
bit<8> f1(in bit<8> v) { return f0(v) + f0(v); }
bit<8> f2(in bit<8> v) { return f1(v) + f1(v); }
bit<8> f3(in bit<8> v) { return f2(v) + f2(v); }
bit<8> f4(in bit<8> v) { return f3(v) + f3(v); }
bit<8> f5(in bit<8> v) { return f4(v) + f4(v); }
bit<8> f6(in bit<8> v) { return f5(v) + f5(v); }
bit<8> f7(in bit<8> v) { return f6(v) + f6(v); }
bit<8> f8(in bit<8> v) { return f7(v) + f7(v); }
bit<8> f9(in bit<8> v) { return f8(v) + f8(v); }
bit<8> f10(in bit<8> v) { return f9(v) + f9(v); }
bit<8> f11(in bit<8> v) { return f10(v) + f10(v); }
bit<8> f12(in bit<8> v) { return f11(v) + f11(v); }
bit<8> f13(in bit<8> v) { return f12(v) + f12(v); }
bit<8> f14(in bit<8> v) { return f13(v) + f13(v); }
bit<8> f15(in bit<8> v) { return f14(v) + f14(v); }
bit<8> f16(in bit<8> v) { return f15(v) + f15(v); } // error[E0514]
bit<8> f17(in bit<8> v) { return f16(v) + f16(v); }
bit<8> f18(in bit<8> v) { return f17(v) + f17(v); }
bit<8> f19(in bit<8> v) { return f18(v) + f18(v); }
bit<8> f20(in bit<8> v) { return f19(v) + f19(v); }
bit<8> f21(in bit<8> v) { return f20(v) + f20(v); }
bit<8> f22(in bit<8> v) { return f21(v) + f21(v); }
bit<8> f23(in bit<8> v) { return f22(v) + f22(v); }
control A(inout bit<8> x) { apply { x = f23(x); } }

control c0(inout bit<8> x) { apply { x = x + 1; } }
control c1(inout bit<8> x) { c0() one; apply { one.apply(x); one.apply(x); } }
control c2(inout bit<8> x) { c1() one; apply { one.apply(x); one.apply(x); } }
control c3(inout bit<8> x) { c2() one; apply { one.apply(x); one.apply(x); } }
control B(inout bit<8> x) { c3() c; apply { c.apply(x); } }
// Nothing applies this: it is not expanded.
control unused0(inout bit<8> x) { apply { x = f23(x); } }
Pack(A(), B(), B()) main;
