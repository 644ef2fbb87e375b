// The INT node of examples/int with tables that a reflex plane writes: blocked hosts, rates of tenants, routes; and with
// reports of packets that visit more nodes than a way has.

#define REFLEX_EDGE
#include "../int/int.p4"
