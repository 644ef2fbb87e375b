// Judges histories of single keys by porcupine. Reads one history a line as JSON from standard
// input, and writes "true" or "false" a line: whether it is linearizable.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

// operation is one request. Value 0 is no value.
type operation struct {
	// Kind is "read", "write" or "swap".
	Kind string `json:"kind"`
	Call int64  `json:"call"`
	// Done is null if the outcome is unknown.
	Done *int64 `json:"done"`
	// Seen is the value that a read or a swap found.
	Seen uint64 `json:"seen"`
	// New is the value that a write or a swap set.
	New uint64 `json:"new"`
}

type history struct {
	Operations []operation `json:"operations"`
}

var register = porcupine.Model{
	Init: func() interface{} { return uint64(0) },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		value, op := state.(uint64), input.(operation)
		unknown := op.Done == nil
		switch op.Kind {
		case "read":
			return unknown || op.Seen == value, value
		case "write":
			return true, op.New
		case "swap":
			if op.Seen == value {
				return true, op.New
			}
			return unknown, value
		}
		panic("unknown kind " + op.Kind)
	},
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var one history
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		operations := make([]porcupine.Operation, 0, len(one.Operations))
		for client, op := range one.Operations {
			// An operation of unknown outcome may take effect at any later time.
			end := int64(math.MaxInt64)
			if op.Done != nil {
				end = *op.Done
			}
			operations = append(operations, porcupine.Operation{
				ClientId: client, Input: op, Call: op.Call, Output: nil, Return: end,
			})
		}
		fmt.Println(porcupine.CheckOperations(register, operations))
	}
}
