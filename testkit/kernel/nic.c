// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Test NIC: pairs of network interfaces with a flower offload table.
 *
 * Pair N is `nicN`, the host's side, and `wireN`, the cable's side. A frame sent into `wireN` first
 * meets the table of `nicN`, which is the "hardware". A hit does the rule's actions; a redirect to
 * `nicM` sends the frame out of `wireM`. A miss is received by `nicN`, where the kernel's software
 * rules are. A frame that the kernel sends by `nicN` comes out of `wireN`.
 *
 * Faults are module parameters, see the end of the declarations.
 */
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/hashtable.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mpls.h>
#include <linux/netdevice.h>
#include <linux/tcp.h>
#include <linux/tc_act/tc_csum.h>
#include <linux/udp.h>
#include <net/flow_dissector.h>
#include <net/flow_offload.h>
#include <net/ip.h>
#include <net/pkt_cls.h>

/* Bytes that hold all keys of a flower rule. */
#define KEYS 512

static uint pairs = 4;
module_param(pairs, uint, 0444);
MODULE_PARM_DESC(pairs, "pairs of interfaces");
static uint capacity = 4800;
module_param(capacity, uint, 0644);
MODULE_PARM_DESC(capacity, "rules that fit in the hardware");
static uint max_actions = 32;
module_param(max_actions, uint, 0644);
MODULE_PARM_DESC(max_actions, "actions that a rule may have");
static uint keys = ~0U;
module_param(keys, uint, 0644);
MODULE_PARM_DESC(keys, "mask of the kinds of keys that the hardware has");
static bool refuse;
module_param(refuse, bool, 0644);
MODULE_PARM_DESC(refuse, "refuse each new rule, after the delay");
static uint delay_ms;
module_param(delay_ms, uint, 0644);
MODULE_PARM_DESC(delay_ms, "time that a new rule takes");
static bool lie;
module_param(lie, bool, 0644);
MODULE_PARM_DESC(lie, "accept a new rule that matches nothing");
static ulong busy_ns;
module_param(busy_ns, ulong, 0644);
MODULE_PARM_DESC(busy_ns, "time that the driver has spent on rules");
static uint rules;
module_param(rules, uint, 0444);
MODULE_PARM_DESC(rules, "rules in the hardware now");

/* A rule in the hardware. An evicted rule, and a lie, have no effect. */
struct hw_rule {
	struct list_head list;
	struct hlist_node by_cookie;
	unsigned long cookie;
	u32 prio;
	__be16 protocol;
	bool active;
	u64 packets, bytes, lastused;
	struct flow_dissector dissector;
	u8 key[KEYS], mask[KEYS];
	unsigned int count;
	struct flow_action_entry actions[];
};

struct pair {
	struct net_device *host, *wire;
	/* Best priority first; rules of one priority in the order of their insertion. */
	struct list_head rules;
	DECLARE_HASHTABLE(by_cookie, 10);
	spinlock_t lock;
};

static struct pair *all;
static LIST_HEAD(block_list);

static struct pair *pair_of(struct net_device *dev)
{
	return *(struct pair **)netdev_priv(dev);
}

/* Sizes of the keys that the hardware has. */
static size_t key_size(int key)
{
	switch (key) {
	case FLOW_DISSECTOR_KEY_CONTROL:
		return sizeof(struct flow_dissector_key_control);
	case FLOW_DISSECTOR_KEY_BASIC:
		return sizeof(struct flow_dissector_key_basic);
	case FLOW_DISSECTOR_KEY_ETH_ADDRS:
		return sizeof(struct flow_dissector_key_eth_addrs);
	case FLOW_DISSECTOR_KEY_VLAN:
	case FLOW_DISSECTOR_KEY_CVLAN:
		return sizeof(struct flow_dissector_key_vlan);
	case FLOW_DISSECTOR_KEY_MPLS:
		return sizeof(struct flow_dissector_key_mpls);
	case FLOW_DISSECTOR_KEY_IPV4_ADDRS:
		return sizeof(struct flow_dissector_key_ipv4_addrs);
	case FLOW_DISSECTOR_KEY_IPV6_ADDRS:
		return sizeof(struct flow_dissector_key_ipv6_addrs);
	case FLOW_DISSECTOR_KEY_IP:
		return sizeof(struct flow_dissector_key_ip);
	case FLOW_DISSECTOR_KEY_PORTS:
		return sizeof(struct flow_dissector_key_ports);
	case FLOW_DISSECTOR_KEY_TCP:
		return sizeof(struct flow_dissector_key_tcp);
	case FLOW_DISSECTOR_KEY_ICMP:
		return sizeof(struct flow_dissector_key_icmp);
	case FLOW_DISSECTOR_KEY_ARP:
		return sizeof(struct flow_dissector_key_arp);
	default:
		return 0;
	}
}

static bool known_action(enum flow_action_id id)
{
	switch (id) {
	case FLOW_ACTION_ACCEPT:
	case FLOW_ACTION_DROP:
	case FLOW_ACTION_PIPE:
	case FLOW_ACTION_REDIRECT:
	case FLOW_ACTION_MIRRED:
	case FLOW_ACTION_VLAN_PUSH:
	case FLOW_ACTION_VLAN_POP:
	case FLOW_ACTION_VLAN_MANGLE:
	case FLOW_ACTION_MANGLE:
	case FLOW_ACTION_ADD:
	case FLOW_ACTION_CSUM:
	case FLOW_ACTION_MPLS_PUSH:
	case FLOW_ACTION_MPLS_POP:
		return true;
	default:
		return false;
	}
}

/* Sends a frame out of a cable. The frame's data begins at its Ethernet header. */
static void emit(struct sk_buff *skb, struct net_device *host)
{
	if (host->netdev_ops->ndo_start_xmit != all[0].host->netdev_ops->ndo_start_xmit) {
		kfree_skb(skb);
		return;
	}
	dev_forward_skb(pair_of(host)->wire, skb);
}

static void *header(struct sk_buff *skb, enum flow_action_mangle_base base)
{
	struct iphdr *ip = ip_hdr(skb);
	bool is_ip = skb->protocol == htons(ETH_P_IP);

	switch (base) {
	case FLOW_ACT_MANGLE_HDR_TYPE_ETH:
		return skb_mac_header(skb);
	case FLOW_ACT_MANGLE_HDR_TYPE_IP4:
		return is_ip ? ip : NULL;
	case FLOW_ACT_MANGLE_HDR_TYPE_IP6:
		return skb->protocol == htons(ETH_P_IPV6) ? (void *)ip : NULL;
	case FLOW_ACT_MANGLE_HDR_TYPE_TCP:
		return is_ip && ip->protocol == IPPROTO_TCP ? (u8 *)ip + ip->ihl * 4 : NULL;
	case FLOW_ACT_MANGLE_HDR_TYPE_UDP:
		return is_ip && ip->protocol == IPPROTO_UDP ? (u8 *)ip + ip->ihl * 4 : NULL;
	default:
		return NULL;
	}
}

static void mangle(struct sk_buff *skb, const struct flow_action_entry *act)
{
	u8 *at = header(skb, act->mangle.htype);
	u32 word, val = act->mangle.val;

	if (!at || at + act->mangle.offset + 4 > skb_tail_pointer(skb))
		return;
	at += act->mangle.offset;
	memcpy(&word, at, 4);
	if (act->id == FLOW_ACTION_ADD)
		val = (word + val) & ~act->mangle.mask;
	word = (word & act->mangle.mask) ^ val;
	memcpy(at, &word, 4);
}

static void checksums(struct sk_buff *skb, u32 flags)
{
	struct iphdr *ip = ip_hdr(skb);
	int length = ntohs(ip->tot_len) - ip->ihl * 4;
	u8 *at = (u8 *)ip + ip->ihl * 4;

	if (skb->protocol != htons(ETH_P_IP))
		return;
	if (!ip_is_fragment(ip) && ip->protocol == IPPROTO_TCP &&
	    (flags & TCA_CSUM_UPDATE_FLAG_TCP) && length >= (int)sizeof(struct tcphdr)) {
		struct tcphdr *tcp = (void *)at;

		tcp->check = 0;
		tcp->check = csum_tcpudp_magic(ip->saddr, ip->daddr, length, IPPROTO_TCP,
					       csum_partial(at, length, 0));
	}
	if (!ip_is_fragment(ip) && ip->protocol == IPPROTO_UDP &&
	    (flags & TCA_CSUM_UPDATE_FLAG_UDP) && length >= (int)sizeof(struct udphdr)) {
		struct udphdr *udp = (void *)at;

		length = min(length, (int)ntohs(udp->len));
		if (udp->check && length >= (int)sizeof(*udp)) {
			udp->check = 0;
			udp->check = csum_tcpudp_magic(ip->saddr, ip->daddr, length, IPPROTO_UDP,
						       csum_partial(at, length, 0));
			if (!udp->check)
				udp->check = CSUM_MANGLED_0;
		}
	}
	if (flags & TCA_CSUM_UPDATE_FLAG_IPV4HDR)
		ip_send_check(ip);
}

/* Does an action that changes the frame. Returns false if the frame cannot have it. */
static bool change(struct sk_buff *skb, const struct flow_action_entry *act)
{
	switch (act->id) {
	case FLOW_ACTION_MANGLE:
	case FLOW_ACTION_ADD:
		mangle(skb, act);
		return true;
	case FLOW_ACTION_CSUM:
		checksums(skb, act->csum_flags);
		return true;
	case FLOW_ACTION_VLAN_PUSH:
		return !skb_vlan_push(skb, act->vlan.proto,
				      act->vlan.vid | act->vlan.prio << VLAN_PRIO_SHIFT);
	case FLOW_ACTION_VLAN_POP:
		return !skb_vlan_pop(skb);
	case FLOW_ACTION_VLAN_MANGLE:
		if (skb_vlan_tag_present(skb)) {
			u16 dei = skb_vlan_tag_get(skb) & VLAN_CFI_MASK;

			__vlan_hwaccel_put_tag(skb, act->vlan.proto, act->vlan.vid | dei |
					       act->vlan.prio << VLAN_PRIO_SHIFT);
		}
		return true;
	case FLOW_ACTION_MPLS_PUSH:
		return !skb_mpls_push(skb, htonl(act->mpls_push.label << MPLS_LS_LABEL_SHIFT |
						 act->mpls_push.tc << MPLS_LS_TC_SHIFT |
						 act->mpls_push.bos << MPLS_LS_S_SHIFT |
						 act->mpls_push.ttl),
				      act->mpls_push.proto, skb->mac_len, true);
	case FLOW_ACTION_MPLS_POP:
		return !skb_mpls_pop(skb, act->mpls_pop.proto, skb->mac_len, true);
	default:
		return true;
	}
}

/* Does the actions of a rule. Returns the frame if it goes on to the host. */
static struct sk_buff *act_on(struct hw_rule *rule, struct sk_buff *skb)
{
	unsigned int i;

	for (i = 0; i < rule->count; i++) {
		const struct flow_action_entry *act = &rule->actions[i];
		struct sk_buff *copy;

		switch (act->id) {
		case FLOW_ACTION_DROP:
			kfree_skb(skb);
			return NULL;
		case FLOW_ACTION_ACCEPT:
			return skb;
		case FLOW_ACTION_REDIRECT:
			emit(skb, act->dev);
			return NULL;
		case FLOW_ACTION_MIRRED:
			copy = skb_copy(skb, GFP_ATOMIC);
			if (copy)
				emit(copy, act->dev);
			break;
		default:
			if (!change(skb, act)) {
				kfree_skb(skb);
				return NULL;
			}
		}
	}
	return skb;
}

static bool matches(const struct hw_rule *rule, struct sk_buff *skb)
{
	struct flow_dissector *dissector = (struct flow_dissector *)&rule->dissector;
	u8 found[KEYS] = {};
	int i;

	/* As the kernel does: without it a rule for IPv4 would match tagged IPv4, too. */
	if (rule->protocol != htons(ETH_P_ALL) && rule->protocol != skb_protocol(skb, false))
		return false;
	skb_flow_dissect(skb, dissector, found, FLOW_DISSECTOR_F_STOP_BEFORE_ENCAP);
	for (i = 0; i < KEYS; i++)
		if ((found[i] ^ rule->key[i]) & rule->mask[i])
			return false;
	return true;
}

/* Frame from the cable: the hardware's table, else the host. */
static netdev_tx_t wire_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct pair *pair = pair_of(dev);
	struct hw_rule *rule;

	dev->stats.tx_packets++;
	skb = skb_unshare(skb, GFP_ATOMIC);
	if (!skb || skb_linearize(skb)) {
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	/* The state in which software rules see a frame. */
	skb_orphan(skb);
	skb->ip_summed = CHECKSUM_NONE;
	skb->protocol = eth_type_trans(skb, pair->host);
	if (eth_type_vlan(skb->protocol))
		skb = skb_vlan_untag(skb);
	if (!skb)
		return NETDEV_TX_OK;
	skb_reset_network_header(skb);
	skb_reset_mac_len(skb);
	spin_lock(&pair->lock);
	list_for_each_entry(rule, &pair->rules, list) {
		if (!rule->active || !matches(rule, skb))
			continue;
		rule->packets++;
		rule->bytes += skb->len + ETH_HLEN +
			       (skb_vlan_tag_present(skb) ? VLAN_HLEN : 0);
		rule->lastused = jiffies;
		skb_push(skb, ETH_HLEN);
		skb = act_on(rule, skb);
		if (skb)
			skb_pull(skb, ETH_HLEN);
		break;
	}
	spin_unlock(&pair->lock);
	if (skb) {
		skb_push(skb, ETH_HLEN);
		dev_forward_skb(pair->host, skb);
	}
	return NETDEV_TX_OK;
}

/* Frame from the host: it comes out of the cable. */
static netdev_tx_t host_xmit(struct sk_buff *skb, struct net_device *dev)
{
	dev->stats.tx_packets++;
	dev_forward_skb(pair_of(dev)->wire, skb);
	return NETDEV_TX_OK;
}

static struct hw_rule *find(struct pair *pair, unsigned long cookie)
{
	struct hw_rule *rule;

	hash_for_each_possible(pair->by_cookie, rule, by_cookie, cookie)
		if (rule->cookie == cookie)
			return rule;
	return NULL;
}

/* Unlinks a rule. Its place is free already if it was evicted. */
static void unlink(struct hw_rule *rule)
{
	list_del(&rule->list);
	hash_del(&rule->by_cookie);
	kfree(rule);
}

static int check(struct flow_cls_offload *flower)
{
	struct netlink_ext_ack *extack = flower->common.extack;
	struct flow_rule *rule = flower->rule;
	unsigned int i, used = rule->match.dissector->used_keys;

	if (flower->common.chain_index) {
		NL_SET_ERR_MSG_MOD(extack, "only chain 0");
		return -EOPNOTSUPP;
	}
	for (i = 0; i < FLOW_DISSECTOR_KEY_MAX; i++) {
		if (!(used & BIT(i)))
			continue;
		if (!key_size(i) || !(keys & BIT(i)) ||
		    rule->match.dissector->offset[i] + key_size(i) > KEYS) {
			NL_SET_ERR_MSG_MOD(extack, "key is not supported");
			return -EOPNOTSUPP;
		}
	}
	if (rule->action.num_entries > max_actions) {
		NL_SET_ERR_MSG_MOD(extack, "too many actions");
		return -EOPNOTSUPP;
	}
	for (i = 0; i < rule->action.num_entries; i++) {
		if (!known_action(rule->action.entries[i].id)) {
			NL_SET_ERR_MSG_MOD(extack, "action is not supported");
			return -EOPNOTSUPP;
		}
	}
	if (refuse) {
		NL_SET_ERR_MSG_MOD(extack, "refused by the test");
		return -EIO;
	}
	if (rules >= capacity) {
		NL_SET_ERR_MSG_MOD(extack, "table is full");
		return -ENOSPC;
	}
	return 0;
}

static int add_rule(struct pair *pair, struct flow_cls_offload *flower)
{
	struct flow_rule *from = flower->rule;
	struct hw_rule *rule, *old, *before;
	unsigned int i, n = from->action.num_entries;
	int error;

	if (delay_ms)
		msleep(delay_ms);
	error = check(flower);
	if (error)
		return error;
	rule = kzalloc(struct_size(rule, actions, n), GFP_KERNEL);
	if (!rule)
		return -ENOMEM;
	rule->cookie = flower->cookie;
	rule->prio = flower->common.prio;
	rule->protocol = flower->common.protocol;
	rule->active = !lie;
	rule->lastused = jiffies;
	rule->dissector = *from->match.dissector;
	for (i = 0; i < FLOW_DISSECTOR_KEY_MAX; i++) {
		u32 at = rule->dissector.offset[i];

		if (!(rule->dissector.used_keys & BIT(i)))
			continue;
		memcpy(rule->key + at, (u8 *)from->match.key + at, key_size(i));
		memcpy(rule->mask + at, (u8 *)from->match.mask + at, key_size(i));
	}
	rule->count = n;
	memcpy(rule->actions, from->action.entries, n * sizeof(*rule->actions));
	spin_lock_bh(&pair->lock);
	old = find(pair, rule->cookie);
	if (old)
		unlink(old);
	else
		rules++;
	/* From the end: most rules have the last priority. */
	list_for_each_entry_reverse(before, &pair->rules, list)
		if (before->prio <= rule->prio)
			break;
	list_add(&rule->list, &before->list);
	hash_add(pair->by_cookie, &rule->by_cookie, rule->cookie);
	spin_unlock_bh(&pair->lock);
	return 0;
}

static int rule_call(enum tc_setup_type type, void *data, void *priv)
{
	struct flow_cls_offload *flower = data;
	struct pair *pair = priv;
	struct hw_rule *rule;
	int error = 0;

	if (type != TC_SETUP_CLSFLOWER)
		return -EOPNOTSUPP;
	if (flower->command == FLOW_CLS_REPLACE)
		return add_rule(pair, flower);
	spin_lock_bh(&pair->lock);
	rule = find(pair, flower->cookie);
	if (!rule) {
		error = -ENOENT;
	} else if (flower->command == FLOW_CLS_DESTROY) {
		unlink(rule);
		rules--;
	} else if (flower->command == FLOW_CLS_STATS) {
		flow_stats_update(&flower->stats, rule->bytes, rule->packets, 0, rule->lastused,
				  FLOW_ACTION_HW_STATS_DELAYED);
		rule->bytes = 0;
		rule->packets = 0;
	} else {
		error = -EOPNOTSUPP;
	}
	spin_unlock_bh(&pair->lock);
	return error;
}

/* The kernel calls with its lock of network configuration. */
static int flower_call(enum tc_setup_type type, void *data, void *priv)
{
	u64 begin = ktime_get_ns();
	int error = rule_call(type, data, priv);

	busy_ns += ktime_get_ns() - begin;
	return error;
}

/* Takes the effect of the first N rules, without a report. */
static int evict(const char *value, const struct kernel_param *param)
{
	struct hw_rule *rule;
	unsigned int i, left;
	int error = kstrtouint(value, 0, &left);

	for (i = 0; !error && all && i < pairs; i++) {
		spin_lock_bh(&all[i].lock);
		list_for_each_entry(rule, &all[i].rules, list) {
			if (left && rule->active) {
				rule->active = false;
				left--;
			}
		}
		spin_unlock_bh(&all[i].lock);
	}
	return error;
}

static const struct kernel_param_ops evict_ops = { .set = evict };
module_param_cb(evict, &evict_ops, NULL, 0200);
MODULE_PARM_DESC(evict, "rules to evict now");

static int host_setup_tc(struct net_device *dev, enum tc_setup_type type, void *data)
{
	struct pair *pair = pair_of(dev);

	if (type != TC_SETUP_BLOCK)
		return -EOPNOTSUPP;
	return flow_block_cb_setup_simple(data, &block_list, flower_call, pair, pair, true);
}

static const struct net_device_ops wire_ops = {
	.ndo_start_xmit = wire_xmit,
	.ndo_set_mac_address = eth_mac_addr,
};

static const struct net_device_ops host_ops = {
	.ndo_start_xmit = host_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_setup_tc = host_setup_tc,
};

static void setup(struct net_device *dev)
{
	ether_setup(dev);
	eth_hw_addr_random(dev);
	dev->max_mtu = 9216;
	dev->mtu = 9000;
	dev->needs_free_netdev = true;
	dev->flags |= IFF_NOARP;
	dev->priv_flags |= IFF_NO_QUEUE;
}

static struct net_device *make(struct pair *pair, const char *format, unsigned int index)
{
	struct net_device *dev;
	char name[IFNAMSIZ];

	snprintf(name, sizeof(name), format, index);
	dev = alloc_netdev(sizeof(struct pair *), name, NET_NAME_USER, setup);
	if (!dev)
		return NULL;
	*(struct pair **)netdev_priv(dev) = pair;
	if (format[0] == 'n') {
		dev->netdev_ops = &host_ops;
		dev->hw_features |= NETIF_F_HW_TC;
		dev->features |= NETIF_F_HW_TC;
	} else {
		dev->netdev_ops = &wire_ops;
	}
	if (register_netdev(dev)) {
		free_netdev(dev);
		return NULL;
	}
	return dev;
}

static int __init nic_init(void)
{
	unsigned int i;

	all = kcalloc(pairs, sizeof(*all), GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	for (i = 0; i < pairs; i++) {
		INIT_LIST_HEAD(&all[i].rules);
		hash_init(all[i].by_cookie);
		spin_lock_init(&all[i].lock);
		all[i].host = make(&all[i], "nic%u", i);
		all[i].wire = make(&all[i], "wire%u", i);
		/* The module stays loaded until the guest ends, so nothing is taken back. */
		if (!all[i].host || !all[i].wire)
			return -ENOMEM;
	}
	return 0;
}

module_init(nic_init);
MODULE_DESCRIPTION("Test NIC with a flower table");
MODULE_LICENSE("Dual MIT/GPL");
