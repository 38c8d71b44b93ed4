// Says the coordinates that a serf agent knows, as JSON; with `version`, of which module it is made:
// `serf version` says 0.8.2-dev of whatever Go builds.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/hashicorp/serf/client"
)

func main() {
	if os.Args[1] == "version" {
		if built, ok := debug.ReadBuildInfo(); ok {
			for _, one := range built.Deps {
				if one.Path == "github.com/hashicorp/serf" {
					fmt.Println("serf", one.Version, "by", built.GoVersion)
				}
			}
		}
		return
	}
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
