// Asks a service as Consul's own client does, and computes distances as serf's own package does.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/hashicorp/consul/api"
)

func main() {
	client, err := api.NewClient(&api.Config{Address: os.Args[1]})
	if err != nil {
		panic(err)
	}
	entries, _, err := client.Coordinate().Nodes(nil)
	if err != nil {
		panic(err)
	}
	distances := map[string]float64{}
	for _, a := range entries {
		for _, b := range entries {
			if a.Node != b.Node {
				ms := a.Coord.DistanceTo(b.Coord).Seconds() * 1e3
				distances[a.Node+">"+b.Node] = ms
			}
		}
	}
	services, _, err := client.Catalog().Service("game", "", &api.QueryOptions{Near: "alice"})
	if err != nil {
		panic(err)
	}
	var near []string
	for _, one := range services {
		near = append(near, one.Node)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"near": near, "distance_ms": distances})
	fmt.Println()
}
