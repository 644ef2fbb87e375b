/* Path latency anomalies (paper, 3.1.2): the latency of a report against the average of the last
 * ten of its flow. A report has the flow, and the latency in each hop in nanoseconds, a word each.
 * An anomaly is a command of 16 bytes to context 1 of the sender: the flow and the latency.
 *
 * The average has the report's own latency, and deviations in both directions are anomalies, as in
 * the published program. */
#include "nanopu.h"

#define FLOWS 256
#define WINDOW 10
#define THRESHOLD 500 /* ns */

static struct flow {
  uint32_t latencies[WINDOW];
  uint32_t sum;
  uint16_t count;
  uint16_t next;
} flows[FLOWS];

int main(void) {
  net_bind(0, 0);
  for (;;) {
    net_wait();
    uint64_t header = net_read();
    uint64_t words = net_words(header);
    uint64_t id = net_read();
    uint32_t latency = 0;
    while (--words > 0)
      latency += (uint32_t)net_read();
    struct flow *flow = &flows[id % FLOWS];
    flow->sum += latency - flow->latencies[flow->next];
    flow->latencies[flow->next] = latency;
    if (++flow->next == WINDOW)
      flow->next = 0;
    if (flow->count < WINDOW)
      flow->count++;
    else {
      int32_t average = (int32_t)(flow->sum / WINDOW);
      int32_t deviation = (int32_t)latency - average;
      if (deviation > THRESHOLD || deviation < -THRESHOLD) {
        net_write(net_header((uint32_t)(header >> 32), 1, 16));
        net_write(id);
        net_write(latency);
      }
    }
    net_done();
  }
}
