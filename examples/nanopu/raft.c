/* A replica of the replicated log: Raft with the messages of crate `consensus`, so a cluster can
 * have replicas of both. docs/internals/consensus.md has the layouts; docs/reference/nanopu.md has
 * what this replica leaves out (snapshots, changes of members and of elements, reads without an
 * entry).
 *
 * The first message, of any sender, configures the replica: numbers of 8 bytes, little-endian, as
 * `struct setup` has them. All later ones are messages of the log. A replica keeps nothing when its
 * core restarts. */
#include "nanopu.h"
#include "bytes.h"

#define MAX_MEMBERS 8
#define MAX_MESSAGE 2048
#define MAX_ENTRY 192
#define MAX_RING 8192
#define MAX_SESSIONS 256
#define MAX_CELLS 32768 /* twice the keys */
#define MAX_VALUE 64
#define NOBODY 0

enum { VOTE = 1, VOTED, APPEND, APPENDED, PIECE, RECEIVED, CAMPAIGN_NOW, READ_INDEX, READ_AT };
enum { REQUEST = 16, ANSWER, NO_LEADER };
enum { PRE, REAL, TRANSFER };
enum { NOOP, MEMBERS, OPEN, GET, PUT, DELETE, SET_IF_ABSENT, SET_IF_EQUAL };
enum { DONE, OPENED, NO_VALUE, VALUE, SWAPPED, DIFFERS_NONE, DIFFERS, FULL, SESSIONS_FULL, NO_SESSION, STALE };
enum role { FOLLOWER, PRE_CANDIDATE, CANDIDATE, LEADER };

/* Configuration. Times are nanoseconds. */
struct setup {
  uint64_t cluster, id, seed, election_timeout, heartbeat, ring, keys, sessions, session_life;
  uint64_t window, members;
  struct {
    uint64_t id, address; /* address and context, as in an application header */
  } member[MAX_MEMBERS];
};

/* An entry. Its encoding has the place in a word that it has in a message of one entry. */
struct slot {
  uint64_t term;
  uint16_t bytes;
  uint8_t data[MAX_ENTRY];
};

/* Where the answer to the entry of a slot goes. */
struct pending {
  uint64_t index, term, header, client_node, token;
};

struct answer {
  uint8_t kind, bytes;
  uint8_t value[MAX_VALUE];
  uint64_t session;
};

struct session {
  uint64_t client, sequence, used;
  struct answer answer;
};

struct cell {
  uint64_t key[2];
  uint8_t used, bytes;
  uint8_t value[MAX_VALUE];
};

/* A member as its leader knows it. */
struct progress {
  uint64_t matched, next, commit_sent, heard;
  uint8_t streams, waits, due;
};

/* State and counters, of which tests read the first ones. */
struct {
  uint64_t term, vote, leader, role, last, commit, applied;
  uint64_t refused, unsupported, elections;
  uint64_t first; /* the first entry that is not overwritten; a cut does not lower it */
} raft;
static struct setup setup;
static struct progress progress[MAX_MEMBERS];
struct slot ring[MAX_RING]; /* which tests read, too */
static struct pending pending[MAX_RING];
static struct session sessions[MAX_SESSIONS];
static struct cell cells[MAX_CELLS];
static uint64_t now, heard, deadline, heartbeat, check, log_time, keys, cell_mask;
static uint64_t campaign, chance;
static unsigned own, quorum;
static uint8_t voters[MAX_MEMBERS]; /* which are for this candidate */
static uint64_t received_words[MAX_MESSAGE / 8 + 1], sent_words[MAX_MESSAGE / 8 + 1];
#define received ((uint8_t *)received_words)
#define sent ((uint8_t *)sent_words)

static uint64_t random_below(uint64_t limit) {
  chance ^= chance << 13;
  chance ^= chance >> 7;
  chance ^= chance << 17;
  return chance % limit;
}

/* --- Log --- */

static struct slot *slot(uint64_t index) { return &ring[index & (setup.ring - 1)]; }

static int has(uint64_t index) { return index >= raft.first && index <= raft.last; }

/* The number of entries that can follow before one that is needed would be overwritten. The last
 * applied entry stays: a cut can make it the last one, of which votes have the term. */
static uint64_t room(void) { return raft.applied + setup.ring - 1 - raft.last; }

/* The term of an entry, 0 before the first one, and -1 if the log does not know it. */
static uint64_t term_of(uint64_t index) {
  return index == 0 ? 0 : has(index) ? slot(index)->term : UINT64_MAX;
}

/* Appends an entry with the bytes after its term and time. Returns 0 if there is no room. */
static int push(uint64_t term, uint64_t time, const uint8_t *content, unsigned bytes) {
  uint64_t index = raft.last + 1;
  if (room() == 0)
    return 0;
  if (index >= setup.ring + raft.first)
    raft.first = index - setup.ring + 1;
  struct slot *to = slot(index);
  to->term = term;
  to->bytes = 16 + bytes;
  put64(to->data, term);
  put64(to->data + 8, time);
  copy(to->data + 16, content, bytes);
  raft.last = index;
  return 1;
}

/* --- Messages --- */

static void begin(uint8_t kind, uint64_t to) {
  sent_words[0] = (uint64_t)(1 | kind << 8) << 32; /* version and kind */
  sent_words[1] = setup.cluster;
  sent_words[2] = setup.id;
  sent_words[3] = to;
  sent_words[4] = kind < REQUEST ? raft.term : 0;
}

static void finish(uint64_t header, unsigned bytes) {
  sent_words[0] |= (uint64_t)bytes << 48;
  sent_words[0] |= crc32c(sent + 4, bytes - 4);
  net_write(header | bytes);
  for (unsigned word = 0; word * 8 < bytes; word++)
    net_write(swapped(sent_words[word]));
}

static void post(unsigned member, unsigned bytes) { finish(setup.member[member].address, bytes); }

static void send_voted(unsigned to, uint64_t number, int granted) {
  begin(VOTED, setup.member[to].id);
  sent_words[5] = number;
  sent[48] = granted;
  post(to, 49);
}

static void send_appended(unsigned to, int matches, uint64_t index, uint64_t previous, uint64_t round) {
  begin(APPENDED, setup.member[to].id);
  sent[40] = matches;
  put64(sent + 41, index);
  put64(sent + 49, previous);
  put64(sent + 57, round);
  post(to, 65);
}

static void send_answer(const struct pending *to, const struct answer *answer) {
  begin(ANSWER, to->client_node);
  sent_words[5] = to->token;
  sent[48] = answer->kind;
  unsigned bytes = 49;
  if (answer->kind == OPENED) {
    put64(sent + bytes, answer->session);
    bytes += 8;
  } else if (answer->kind == VALUE || answer->kind == DIFFERS) {
    sent[bytes++] = answer->bytes;
    copy(sent + bytes, answer->value, answer->bytes);
    bytes += answer->bytes;
  }
  finish(to->header, bytes);
}

static void send_no_leader(uint64_t header, uint64_t client_node, uint64_t token) {
  begin(NO_LEADER, client_node);
  sent_words[5] = token;
  sent_words[6] = raft.leader;
  finish(header, 56);
}

/* --- Applied state: sessions and keys --- */

/* The cell of a key, or the free one where it would be. */
static struct cell *cell_of(const uint64_t key[2]) {
  uint64_t hash = (key[0] ^ key[1] * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
  uint64_t place = hash >> 32;
  for (;; place++) {
    struct cell *cell = &cells[place & cell_mask];
    if (!cell->used || (cell->key[0] == key[0] && cell->key[1] == key[1]))
      return cell;
  }
}

static uint8_t put_value(const uint64_t key[2], const uint8_t *value, uint8_t bytes) {
  struct cell *cell = cell_of(key);
  if (!cell->used) {
    if (keys == setup.keys)
      return FULL;
    keys++;
    cell->used = 1;
    cell->key[0] = key[0];
    cell->key[1] = key[1];
  }
  cell->bytes = bytes;
  copy(cell->value, value, bytes);
  return DONE;
}

/* Removes a key, and puts the cells after it where lookups find them. */
static void remove_key(const uint64_t key[2]) {
  struct cell *cell = cell_of(key);
  if (!cell->used)
    return;
  cell->used = 0;
  keys--;
  for (uint64_t place = cell - cells + 1; cells[place & cell_mask].used; place++) {
    struct cell moved = cells[place & cell_mask];
    cells[place & cell_mask].used = 0;
    *cell_of(moved.key) = moved;
  }
}

static void give_value(struct answer *answer, const struct cell *cell, uint8_t none, uint8_t some) {
  answer->kind = cell->used ? some : none;
  if (cell->used) {
    answer->bytes = cell->bytes;
    copy(answer->value, cell->value, cell->bytes);
  }
}

static int equals(const struct cell *cell, const uint8_t *value, uint8_t bytes) {
  if (!cell->used || cell->bytes != bytes)
    return 0;
  for (unsigned i = 0; i < bytes; i++)
    if (cell->value[i] != value[i])
      return 0;
  return 1;
}

/* Applies an operation. `at` is after client and number. */
static void operate(uint8_t kind, const uint8_t *at, struct answer *answer) {
  uint64_t key[2] = {load64(at), load64(at + 8)};
  const uint8_t *value = at + 16;
  answer->kind = DONE;
  switch (kind) {
  case GET:
    give_value(answer, cell_of(key), NO_VALUE, VALUE);
    break;
  case PUT:
    answer->kind = put_value(key, value + 1, value[0]);
    break;
  case DELETE:
    remove_key(key);
    break;
  case SET_IF_ABSENT:
  case SET_IF_EQUAL: {
    struct cell *cell = cell_of(key);
    int is_expected = kind == SET_IF_ABSENT ? !cell->used : equals(cell, value + 1, value[0]);
    if (kind == SET_IF_EQUAL)
      value += 1 + value[0];
    if (!is_expected)
      give_value(answer, cell, DIFFERS_NONE, DIFFERS);
    else if ((answer->kind = put_value(key, value + 1, value[0])) == DONE)
      answer->kind = SWAPPED;
    break;
  }
  }
}

static int is_expired(const struct session *session) {
  return session->used + setup.session_life >= session->used &&
         session->used + setup.session_life < log_time;
}

static void open_session(uint64_t index, struct answer *answer) {
  for (unsigned place = 0; place < setup.sessions; place++) {
    struct session *session = &sessions[place];
    if (session->client == 0 || is_expired(session)) {
      session->client = index << 16 | place;
      session->sequence = 0;
      session->used = log_time;
      session->answer.kind = DONE;
      answer->kind = OPENED;
      answer->session = session->client;
      return;
    }
  }
  answer->kind = SESSIONS_FULL;
}

/* Applies a request of a client and returns its answer, which is kept in its session. */
static const struct answer *request_applied(uint64_t index, const uint8_t *content) {
  static struct answer other;
  if (content[0] == OPEN) {
    open_session(index, &other);
    return &other;
  }
  uint64_t client = load64(content + 1), sequence = load64(content + 9);
  struct session *session = &sessions[client & 0xffff];
  other.kind = NO_SESSION;
  if ((client & 0xffff) >= setup.sessions || client == 0 || session->client != client)
    return &other;
  if (is_expired(session)) {
    session->client = 0;
    return &other;
  }
  session->used = log_time;
  if (sequence < session->sequence) {
    other.kind = STALE;
    return &other;
  }
  if (sequence > session->sequence) {
    operate(content[0], content + 17, &session->answer);
    session->sequence = sequence;
  }
  return &session->answer;
}

static void commit_to(uint64_t commit) {
  if (commit > raft.last)
    commit = raft.last;
  if (commit > raft.commit)
    raft.commit = commit;
  while (raft.applied < raft.commit) {
    uint64_t index = raft.applied + 1;
    struct slot *entry = slot(index);
    uint64_t time = load64(entry->data + 8);
    if (time > log_time)
      log_time = time;
    raft.applied = index;
    if (entry->data[16] < OPEN)
      continue;
    const struct answer *answer = request_applied(index, entry->data + 16);
    struct pending *to = &pending[index & (setup.ring - 1)];
    if (to->index == index && to->term == entry->term)
      send_answer(to, answer);
    to->index = 0;
  }
}

/* --- Roles --- */

static void postpone_campaign(void) {
  deadline = now + setup.election_timeout + random_below(setup.election_timeout);
}

static void follow(uint64_t term, uint64_t leader) {
  if (term > raft.term) {
    raft.term = term;
    raft.vote = NOBODY;
  }
  if (raft.role != FOLLOWER)
    postpone_campaign();
  raft.role = FOLLOWER;
  raft.leader = leader;
}

static void become_leader(void) {
  const uint8_t noop = NOOP;
  raft.elections++;
  raft.role = LEADER;
  raft.leader = setup.id;
  for (unsigned i = 0; i < setup.members; i++)
    progress[i] = (struct progress){.next = raft.last + 1, .heard = now, .due = 1};
  heartbeat = now;
  check = now + setup.election_timeout;
  if (!push(raft.term, now, &noop, 1))
    follow(raft.term, NOBODY);
}

static void ask_for_votes(uint8_t kind) {
  campaign++;
  for (unsigned i = 0; i < setup.members; i++) {
    voters[i] = i == own;
    if (i == own)
      continue;
    begin(VOTE, setup.member[i].id);
    sent[40] = kind;
    put64(sent + 41, campaign);
    put64(sent + 49, raft.last);
    put64(sent + 57, term_of(raft.last));
    post(i, 65);
  }
}

static void become_candidate(uint8_t kind) {
  raft.term++;
  raft.vote = setup.id;
  raft.leader = NOBODY;
  raft.role = CANDIDATE;
  postpone_campaign();
  ask_for_votes(kind);
  if (quorum == 1)
    become_leader();
}

static void tick(void) {
  if (raft.role != LEADER) {
    if (now < deadline)
      return;
    postpone_campaign();
    raft.leader = NOBODY;
    raft.role = PRE_CANDIDATE;
    ask_for_votes(PRE);
    if (quorum == 1)
      become_candidate(REAL);
    return;
  }
  if (now >= check) {
    unsigned hear = 0;
    for (unsigned i = 0; i < setup.members; i++)
      hear += i == own || progress[i].heard + setup.election_timeout >= now;
    check = now + setup.election_timeout;
    if (hear < quorum) {
      follow(raft.term, NOBODY);
      return;
    }
  }
  if (now >= heartbeat) {
    heartbeat = now + setup.heartbeat;
    for (unsigned i = 0; i < setup.members; i++) {
      progress[i].due = 1;
      progress[i].waits = 0;
    }
  }
}

static void advance_commit(void) {
  uint64_t best = raft.commit;
  for (unsigned i = 0; i < setup.members; i++) {
    uint64_t index = i == own ? raft.last : progress[i].matched;
    unsigned have = 0;
    for (unsigned j = 0; j < setup.members; j++)
      have += (j == own ? raft.last : progress[j].matched) >= index;
    if (have >= quorum && index > best && index <= raft.last)
      best = index;
  }
  /* Only entries of the own term are committed by counting. */
  if (best > raft.commit && term_of(best) == raft.term)
    commit_to(best);
}

/* Sends what is due to a member. One that lacks entries which are overwritten gets none. */
static void send_entries(unsigned member) {
  struct progress *one = &progress[member];
  for (;;) {
    uint64_t on_way = one->next - 1 > one->matched ? one->next - 1 - one->matched : 0;
    int may_send = one->streams ? on_way < setup.window : !one->waits;
    int has_more = one->next <= raft.last && may_send;
    int has_news = one->commit_sent < raft.commit && one->streams;
    if (!has_more && !one->due && !has_news)
      return;
    uint64_t previous_term = term_of(one->next - 1);
    one->due = 0;
    if (previous_term == UINT64_MAX)
      return;
    begin(APPEND, setup.member[member].id);
    sent_words[5] = one->next - 1;
    sent_words[6] = previous_term;
    sent_words[7] = raft.commit;
    sent_words[8] = 0;
    unsigned bytes = 74, count = 0;
    while (has_more && one->next + count <= raft.last && bytes + MAX_ENTRY <= MAX_MESSAGE) {
      struct slot *entry = slot(one->next + count++);
      copy(sent + bytes, entry->data, entry->bytes);
      bytes += entry->bytes;
    }
    sent[72] = count;
    sent[73] = count >> 8;
    post(member, bytes);
    one->commit_sent = raft.commit;
    if (one->streams)
      one->next += count;
    else
      one->waits = 1;
  }
}

static void lead(void) {
  advance_commit();
  for (unsigned i = 0; i < setup.members && raft.role == LEADER; i++)
    if (i != own)
      send_entries(i);
}

/* --- Received messages --- */

static void asked_for_vote(unsigned from, uint64_t term) {
  uint8_t kind = received[40];
  uint64_t number = load64(received + 41), index = load64(received + 49);
  uint64_t index_term = load64(received + 57), own_term = term_of(raft.last);
  int hears = raft.leader != NOBODY && now - heard < setup.election_timeout;
  int is_long = index_term > own_term || (index_term == own_term && index >= raft.last);
  int granted;
  hears |= raft.role == LEADER;
  if (kind == PRE) {
    granted = !hears && term >= raft.term && is_long;
  } else {
    if (term > raft.term && (kind == TRANSFER || !hears))
      follow(term, NOBODY);
    int is_free = raft.vote == NOBODY || raft.vote == setup.member[from].id;
    granted = term == raft.term && raft.role == FOLLOWER && is_free && is_long;
    if (granted && raft.vote == NOBODY) {
      raft.vote = setup.member[from].id;
      postpone_campaign();
    }
  }
  send_voted(from, number, granted);
}

static void voted(unsigned from, uint64_t term) {
  if (term > raft.term) {
    follow(term, NOBODY);
    return;
  }
  int asks = raft.role == PRE_CANDIDATE || raft.role == CANDIDATE;
  if (!asks || !received[48] || received_words[5] != campaign)
    return;
  voters[from] = 1;
  unsigned votes = 0;
  for (unsigned i = 0; i < setup.members; i++)
    votes += voters[i];
  if (votes < quorum)
    return;
  if (raft.role == PRE_CANDIDATE)
    become_candidate(REAL);
  else
    become_leader();
}

/* The bytes of an entry, or 0 if they are none, or of a kind that this replica does not have. */
static unsigned entry_bytes(const uint8_t *at, unsigned left) {
  unsigned bytes = 17;
  if (left < bytes)
    return 0;
  uint8_t kind = at[16];
  if (kind == MEMBERS || kind > SET_IF_EQUAL)
    return 0;
  if (kind >= OPEN)
    bytes += 16;
  if (kind >= GET)
    bytes += 16;
  for (unsigned values = kind == SET_IF_EQUAL ? 2 : kind == PUT || kind == SET_IF_ABSENT; values > 0; values--) {
    if (left <= bytes || at[bytes] > MAX_VALUE)
      return 0;
    bytes += 1 + at[bytes];
  }
  return bytes <= left ? bytes : 0;
}

/* An index before which the logs may be equal: the last one, or the one before the term that
 * differs. */
static uint64_t hint(uint64_t previous) {
  if (previous > raft.last)
    return raft.last;
  uint64_t differs = term_of(previous), index = previous - 1;
  while (index > raft.commit && term_of(index) == differs)
    index--;
  return index;
}

static void append(unsigned from, unsigned bytes) {
  uint64_t previous = received_words[5], previous_term = received_words[6];
  uint64_t commit = received_words[7], round = received_words[8];
  if (raft.role == LEADER || (raft.leader != NOBODY && raft.leader != setup.member[from].id)) {
    raft.refused++;
    return;
  }
  if (raft.role != FOLLOWER || raft.leader == NOBODY)
    follow(raft.term, setup.member[from].id);
  heard = now;
  postpone_campaign();
  /* What is overwritten is applied, so the leader has the same. */
  int is_known = previous <= raft.applied || term_of(previous) == previous_term;
  if (!is_known) {
    send_appended(from, 0, hint(previous), previous, round);
    return;
  }
  unsigned count = received[72] | received[73] << 8, at = 74;
  uint64_t index = previous;
  for (; count > 0; count--) {
    unsigned length = entry_bytes(received + at, bytes - at);
    if (length == 0) {
      raft.unsupported++;
      break;
    }
    uint64_t term = load64(received + at), next = index + 1;
    if (next > raft.applied) {
      if (next <= raft.last && term_of(next) != term) {
        if (next <= raft.commit) {
          raft.refused++;
          break;
        }
        raft.last = next - 1;
      }
      if (next > raft.last && !push(term, load64(received + at + 8), received + at + 16, length - 16))
        break;
    }
    index = next;
    at += length;
  }
  commit_to(commit < index ? commit : index);
  send_appended(from, 1, index, previous, round);
}

static void appended(unsigned from) {
  int matches = received[40];
  uint64_t index = load64(received + 41), previous = load64(received + 49);
  struct progress *one = &progress[from];
  if (raft.role != LEADER)
    return;
  one->heard = now;
  if (matches) {
    if (index > raft.last) {
      raft.refused++;
      return;
    }
    if (index > one->matched)
      one->matched = index;
    if (!one->streams || one->next <= one->matched)
      one->next = one->matched + 1;
    one->streams = 1;
    one->waits = 0;
    return;
  }
  int is_news = one->streams ? previous > one->matched : previous == one->next - 1;
  if (is_news) {
    uint64_t next = index + 1 < previous ? index + 1 : previous;
    one->next = next > one->matched ? next : one->matched + 1;
    one->streams = 0;
    one->waits = 0;
  }
}

static void take_request(uint64_t header, unsigned bytes) {
  uint64_t client_node = received_words[2], token = received_words[5];
  static uint8_t entry[MAX_ENTRY];
  /* Term and time in front of the request, to check it as the entry that it becomes. */
  if (bytes > 48 + MAX_ENTRY - 16 || bytes < 49 || received[48] < OPEN) {
    raft.refused++;
    return;
  }
  copy(entry + 16, received + 48, bytes - 48);
  if (entry_bytes(entry, bytes - 32) != bytes - 32) {
    raft.unsupported++;
    return;
  }
  /* A part of the ring is for the first entries of later leaders, which commit all before them. */
  int may_push = raft.role == LEADER && room() > setup.ring / 4;
  if (!may_push || !push(raft.term, now, entry + 16, bytes - 48)) {
    send_no_leader(header, client_node, token);
    return;
  }
  struct pending *to = &pending[raft.last & (setup.ring - 1)];
  *to = (struct pending){raft.last, raft.term, header, client_node, token};
}

/* Bytes that messages of a kind have at least; 0 for kinds that this replica does not take. */
static const uint8_t LEAST[REQUEST + 1] = {
    [VOTE] = 65, [VOTED] = 49, [APPEND] = 74, [APPENDED] = 65, [CAMPAIGN_NOW] = 40, [REQUEST] = 49};

static void take(uint64_t header, unsigned bytes) {
  uint8_t kind = received[5];
  int is_whole = bytes >= 40 && bytes <= MAX_MESSAGE && received_words[0] >> 48 == bytes &&
                 received[4] == 1 && received_words[1] == setup.cluster &&
                 received_words[3] == setup.id;
  if (!is_whole || crc32c(received + 4, bytes - 4) != (uint32_t)received_words[0]) {
    raft.refused++;
    return;
  }
  if (kind > REQUEST || LEAST[kind] == 0 || bytes < LEAST[kind]) {
    raft.unsupported++;
    return;
  }
  if (kind == REQUEST) {
    take_request(header, bytes);
    return;
  }
  uint64_t term = received_words[4];
  unsigned from = 0;
  while (from < setup.members && setup.member[from].id != received_words[2])
    from++;
  if (from == setup.members || from == own || term == UINT64_MAX) {
    raft.refused++;
    return;
  }
  if (kind == VOTE) {
    asked_for_vote(from, term);
    return;
  }
  if (kind == VOTED) {
    voted(from, term);
    return;
  }
  if (term > raft.term)
    follow(term, NOBODY);
  if (term < raft.term) {
    /* An old leader learns of the new term. */
    if (kind == APPEND)
      send_appended(from, 0, 0, 0, 0);
    return;
  }
  switch (kind) {
  case APPEND:
    append(from, bytes);
    break;
  case APPENDED:
    appended(from);
    break;
  case CAMPAIGN_NOW:
    if (raft.leader == setup.member[from].id && raft.role == FOLLOWER)
      become_candidate(TRANSFER);
    break;
  }
}

/* Reads a message and returns its header. */
static uint64_t read_message(void) {
  uint64_t header = net_read();
  uint64_t words = net_words(header);
  for (uint64_t word = 0; word < words; word++)
    received_words[word] = swapped(net_read());
  net_done();
  return header;
}

/* Takes the configuration. Returns 0 if it is none. */
static int configure(unsigned bytes) {
  unsigned least = sizeof setup - sizeof setup.member;
  if (bytes > sizeof setup || bytes < least)
    return 0;
  copy((uint8_t *)&setup, received, bytes);
  int is_power = setup.ring >= 16 && setup.ring <= MAX_RING && (setup.ring & (setup.ring - 1)) == 0;
  if (!is_power || setup.members == 0 || setup.members > MAX_MEMBERS ||
      bytes < least + setup.members * sizeof setup.member[0] || setup.keys > MAX_CELLS / 2 ||
      setup.sessions > MAX_SESSIONS || setup.election_timeout == 0)
    return 0;
  for (own = 0; own < setup.members && setup.member[own].id != setup.id; own++)
    ;
  if (own == setup.members)
    return 0;
  quorum = setup.members / 2 + 1;
  raft.first = 1;
  for (cell_mask = 1; cell_mask < 2 * setup.keys; cell_mask *= 2)
    ;
  cell_mask--;
  chance = setup.seed * 0x9e3779b97f4a7c15u + setup.id + 1;
  chance += chance == 0;
  random_below(1);
  campaign = chance;
  return 1;
}

int main(void) {
  crc32c_begin();
  net_bind(0, 0);
  do
    net_wait();
  while (!configure(net_length(read_message())));
  now = time_ns();
  heard = now;
  postpone_campaign();
  for (;;) {
    timer_at(raft.role != LEADER ? deadline : heartbeat < check ? heartbeat : check);
    net_wait_or_timer();
    now = time_ns();
    /* Requests that are there go into one message to each member. */
    for (unsigned most = 8; most > 0 && net_ready() > 0; most--) {
      uint64_t header = read_message();
      take(header & ~0xffffull, net_length(header));
    }
    tick();
    if (raft.role == LEADER)
      lead();
  }
}
