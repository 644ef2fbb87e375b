// A client written with the Go modules of P4Runtime and gRPC against a switch: loads a program, writes, reads, gets a packet and a digest.
//
// usage: client ADDRESS P4INFO PROGRAM
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/prototext"
)

const device = 1

var election = &p4.Uint128{Low: 1}

// A controller with its session and the program's objects.
type controller struct {
	ctx    context.Context
	client p4.P4RuntimeClient
	stream p4.P4Runtime_StreamChannelClient
	info   *config.P4Info
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: client ADDRESS P4INFO PROGRAM")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal("go: ", err)
	}
	fmt.Println("go: passed")
}

func run(address, infoFile, programFile string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	c := &controller{ctx: ctx, client: p4.NewP4RuntimeClient(connection), info: &config.P4Info{}}
	for _, step := range []func() error{
		c.becomePrimary,
		func() error { return c.load(infoFile, programFile) },
		c.writeAndRead,
		c.getPacket,
		c.getDigest,
		c.remove,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *controller) becomePrimary() error {
	stream, err := c.client.StreamChannel(c.ctx)
	if err != nil {
		return err
	}
	c.stream = stream
	ask := &p4.MasterArbitrationUpdate{DeviceId: device, ElectionId: election}
	if err := stream.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{Arbitration: ask}}); err != nil {
		return err
	}
	told, err := stream.Recv()
	if err != nil {
		return err
	}
	if code := told.GetArbitration().GetStatus().GetCode(); codes.Code(code) != codes.OK {
		return fmt.Errorf("not primary: %v", told)
	}
	return nil
}

func (c *controller) load(infoFile, programFile string) error {
	text, err := os.ReadFile(infoFile)
	if err != nil {
		return err
	}
	if err := prototext.Unmarshal(text, c.info); err != nil {
		return err
	}
	program, err := os.ReadFile(programFile)
	if err != nil {
		return err
	}
	_, err = c.client.SetForwardingPipelineConfig(c.ctx, &p4.SetForwardingPipelineConfigRequest{
		DeviceId:   device,
		ElectionId: election,
		Action:     p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{
			P4Info:         c.info,
			P4DeviceConfig: program,
			Cookie:         &p4.ForwardingPipelineConfig_Cookie{Cookie: 42},
		},
	})
	if err != nil {
		return err
	}
	got, err := c.client.GetForwardingPipelineConfig(c.ctx, &p4.GetForwardingPipelineConfigRequest{DeviceId: device})
	if err != nil {
		return err
	}
	if cookie := got.GetConfig().GetCookie().GetCookie(); cookie != 42 {
		return fmt.Errorf("the cookie is %d", cookie)
	}
	fmt.Println("loaded", len(c.info.Tables), "tables")
	return nil
}

// The number of an object whose name ends like this.
func (c *controller) id(name string) uint32 {
	var preambles []*config.Preamble
	for _, one := range c.info.Tables {
		preambles = append(preambles, one.Preamble)
	}
	for _, one := range c.info.Actions {
		preambles = append(preambles, one.Preamble)
	}
	for _, one := range c.info.Digests {
		preambles = append(preambles, one.Preamble)
	}
	for _, preamble := range preambles {
		if preamble.Name == name || strings.HasSuffix(preamble.Name, "."+name) {
			return preamble.Id
		}
	}
	log.Fatalf("go: the P4Info has no %s", name)
	return 0
}

func (c *controller) update(kind p4.Update_Type, entities ...*p4.Entity) error {
	request := &p4.WriteRequest{DeviceId: device, ElectionId: election}
	for _, entity := range entities {
		request.Updates = append(request.Updates, &p4.Update{Type: kind, Entity: entity})
	}
	_, err := c.client.Write(c.ctx, request)
	return err
}

func (c *controller) entry(table, action string, match *p4.FieldMatch, priority int32) *p4.Entity {
	return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{
		TableId:  c.id(table),
		Match:    []*p4.FieldMatch{match},
		Priority: priority,
		Action: &p4.TableAction{Type: &p4.TableAction_Action{
			Action: &p4.Action{ActionId: c.id(action)},
		}},
	}}}
}

func exact(value byte) *p4.FieldMatch {
	match := &p4.FieldMatch_Exact{Value: []byte{value}}
	return &p4.FieldMatch{FieldId: 1, FieldMatchType: &p4.FieldMatch_Exact_{Exact: match}}
}

func (c *controller) count(table string) (int, error) {
	all := &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: c.id(table)}}}
	stream, err := c.client.Read(c.ctx, &p4.ReadRequest{DeviceId: device, Entities: []*p4.Entity{all}})
	if err != nil {
		return 0, err
	}
	part, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	return len(part.Entities), nil
}

func (c *controller) writeAndRead() error {
	lpm := &p4.FieldMatch_LPM{Value: []byte{0x0a, 0, 0, 0, 0, 0}, PrefixLen: 8}
	ternary := &p4.FieldMatch_Ternary{Value: []byte{8, 0}, Mask: []byte{0xff, 0}}
	err := c.update(p4.Update_INSERT,
		c.entry("stations", "to_controller", exact(1), 0),
		c.entry("stations", "learn", exact(2), 0),
		c.entry("routes", "NoAction", &p4.FieldMatch{FieldId: 1, FieldMatchType: &p4.FieldMatch_Lpm{Lpm: lpm}}, 0),
		c.entry("rules", "drop", &p4.FieldMatch{FieldId: 1, FieldMatchType: &p4.FieldMatch_Ternary_{Ternary: ternary}}, 7),
	)
	if err != nil {
		return err
	}
	for table, want := range map[string]int{"stations": 2, "routes": 1, "rules": 1} {
		found, err := c.count(table)
		if err != nil {
			return err
		}
		if found != want {
			return fmt.Errorf("%s has %d entries, not %d", table, found, want)
		}
	}
	if c.update(p4.Update_INSERT, c.entry("stations", "learn", exact(2), 0)) == nil {
		return fmt.Errorf("an entry was inserted twice")
	}
	digest := &p4.DigestEntry{DigestId: c.id("learned_t"), Config: &p4.DigestEntry_Config{MaxListSize: 1, AckTimeoutNs: 1e9}}
	fmt.Println("wrote and read 4 entries")
	return c.update(p4.Update_INSERT, &p4.Entity{Entity: &p4.Entity_DigestEntry{DigestEntry: digest}})
}

func frame(to, from byte) []byte {
	return append([]byte{0, 0, 0, 0, 0, to, 0, 0, 0, 0, 0, from, 0x99, 0x99}, "payload"...)
}

func (c *controller) send(payload []byte) error {
	out := &p4.PacketOut{Payload: payload, Metadata: []*p4.PacketMetadata{
		{MetadataId: 1, Value: []byte{0}},
		{MetadataId: 2, Value: []byte{0}},
	}}
	return c.stream.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Packet{Packet: out}})
}

func (c *controller) getPacket() error {
	if err := c.send(frame(1, 9)); err != nil {
		return err
	}
	told, err := c.stream.Recv()
	if err != nil {
		return err
	}
	if !bytes.Equal(told.GetPacket().GetPayload(), frame(1, 9)) {
		return fmt.Errorf("no packet came, but %v", told)
	}
	fmt.Println("got a packet back")
	return nil
}

func (c *controller) getDigest() error {
	if err := c.send(frame(2, 7)); err != nil {
		return err
	}
	told, err := c.stream.Recv()
	if err != nil {
		return err
	}
	list := told.GetDigest()
	if len(list.GetData()) != 1 {
		return fmt.Errorf("no digest came, but %v", told)
	}
	fmt.Println("got a digest with 1 message")
	ack := &p4.DigestListAck{DigestId: list.DigestId, ListId: list.ListId}
	return c.stream.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_DigestAck{DigestAck: ack}})
}

func (c *controller) remove() error {
	if err := c.update(p4.Update_DELETE, c.entry("stations", "to_controller", exact(1), 0)); err != nil {
		return err
	}
	found, err := c.count("stations")
	if err == nil && found != 1 {
		err = fmt.Errorf("%d entries are left", found)
	}
	return err
}
