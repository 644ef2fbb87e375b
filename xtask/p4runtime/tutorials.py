"""What the controllers of the P4 tutorials send: device ids 0 and 1, a device config in the message p4.tmp.P4DeviceConfig, values in all their bytes.

usage: tutorials.py ADDRESS P4INFO PROGRAM
"""

import queue
import sys

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def wrapped(data):
    """The message with `reassign` (1) set and the config as `device_data` (3)."""
    return b"\x08\x01\x1a" + varint(len(data)) + data


def ident(objects, name):
    return next(one.preamble.id for one in objects if one.preamble.name == name)


class Connection:
    def __init__(self, address, device):
        self.device = device
        self.channel = grpc.insecure_channel(address)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.asked = queue.Queue()
        self.told = self.stub.StreamChannel(iter(self.asked.get, None))

    def arbitrate(self):
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device
        request.arbitration.election_id.low = 1
        self.asked.put(request)
        answer = next(self.told)
        assert answer.arbitration.status.code == 0, answer
        assert answer.arbitration.device_id == self.device, answer

    def set_config(self, info, program):
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest()
        request.device_id = self.device
        request.election_id.low = 1
        request.action = p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(info)
        request.config.p4_device_config = wrapped(program)
        self.stub.SetForwardingPipelineConfig(request)

    def insert(self, fill):
        request = p4runtime_pb2.WriteRequest()
        request.device_id = self.device
        request.election_id.low = 1
        update = request.updates.add()
        update.type = p4runtime_pb2.Update.INSERT
        fill(update.entity)
        self.stub.Write(request)

    def read(self, fill):
        request = p4runtime_pb2.ReadRequest()
        request.device_id = self.device
        fill(request.entities.add())
        return [entity for answer in self.stub.Read(request) for entity in answer.entities]

    def close(self):
        self.asked.put(None)
        self.told.cancel()
        self.channel.close()


def drive(address, device, info, program):
    connection = Connection(address, device)
    connection.arbitrate()
    connection.set_config(info, program)

    table = ident(info.tables, "In.stations")

    def entry(entity):
        entity.table_entry.table_id = table
        match = entity.table_entry.match.add()
        match.field_id = 1
        match.exact.value = bytes([0, 0, 0, 0, 0, 1])
        entity.table_entry.action.action.action_id = ident(info.actions, "In.to_controller")

    def group(entity):
        engine = entity.packet_replication_engine_entry.multicast_group_entry
        engine.multicast_group_id = 1
        for port in (1, 2):
            replica = engine.replicas.add()
            replica.egress_port = port
            replica.instance = 1

    def session(entity):
        engine = entity.packet_replication_engine_entry.clone_session_entry
        engine.session_id = 100
        replica = engine.replicas.add()
        replica.egress_port = 3
        replica.instance = 1
        engine.packet_length_bytes = 128

    connection.insert(entry)
    connection.insert(group)
    connection.insert(session)
    found = connection.read(lambda entity: setattr(entity.table_entry, "table_id", table))
    assert len(found) == 1, found
    print("device", device, "loaded, wrote and read")
    connection.close()


def main():
    address, info_file, program_file = sys.argv[1:4]
    with open(info_file) as text:
        info = text_format.Parse(text.read(), p4info_pb2.P4Info())
    with open(program_file, "rb") as text:
        program = text.read()
    for device in (0, 1):
        drive(address, device, info, program)


main()
