// Says the coordinates that a serf agent knows, as JSON.
package main

import (
	"encoding/json"
	"os"

	"github.com/hashicorp/serf/client"
)

func main() {
	rpc, err := client.NewRPCClient(os.Args[1])
	if err != nil {
		panic(err)
	}
	all := map[string]any{}
	for _, name := range os.Args[2:] {
		if coord, err := rpc.GetCoordinate(name); err == nil && coord != nil {
			all[name] = coord
		}
	}
	json.NewEncoder(os.Stdout).Encode(all)
}
