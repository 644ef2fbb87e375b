/* Programs over a switch and servers (CLIP): types that P4 carries and C computes with. */

#ifndef _CLIP_P4_
#define _CLIP_P4_

#include <core.p4>

/* IEEE 754 binary32 and binary64. P4 compares and carries their bits. C sees float and double. */
type bit<32> float32;
type bit<64> float64;

#endif
