// The INT node of examples/int with routes, and with reports of packets that it drops: by a full queue, or at the end of
// their time to live.

#define REFLEX_EDGE
#define INT_DROP_REPORTS
#include "../../int/int.p4"
