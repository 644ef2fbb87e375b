module polyplane/p4runtime-client

go 1.23.0

require (
	github.com/p4lang/p4runtime v1.5.0
	google.golang.org/grpc v1.72.2
	google.golang.org/protobuf v1.36.5
)

require (
	golang.org/x/net v0.38.0 // indirect
	golang.org/x/sys v0.31.0 // indirect
	golang.org/x/text v0.23.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250218202821-56aae31c358a // indirect
)
