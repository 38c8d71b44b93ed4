// A node of memberlist that prints the round trip of each of its probes: peer and milliseconds.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/hashicorp/memberlist"
)

type told struct{}

func (told) AckPayload() []byte { return nil }

func (told) NotifyPingComplete(other *memberlist.Node, rtt time.Duration, _ []byte) {
	fmt.Println(other.Addr.String(), float64(rtt)/1e6)
}

func main() {
	if os.Args[1] == "version" {
		if built, ok := debug.ReadBuildInfo(); ok {
			for _, one := range built.Deps {
				if one.Path == "github.com/hashicorp/memberlist" {
					fmt.Println("memberlist", one.Version, "by", built.GoVersion)
				}
			}
		}
		return
	}
	// The configuration for wide areas, with more frequent probes.
	config := memberlist.DefaultWANConfig()
	config.Name, config.BindAddr, config.AdvertiseAddr = os.Args[1], os.Args[1], os.Args[1]
	config.LogOutput = io.Discard
	config.Ping = told{}
	every, err := time.ParseDuration(os.Args[2])
	if err != nil {
		panic(err)
	}
	config.ProbeInterval, config.ProbeTimeout = every, time.Second
	if net.ParseIP(os.Args[1]) == nil {
		panic("no address: " + os.Args[1])
	}
	list, err := memberlist.Create(config)
	if err != nil {
		panic(err)
	}
	for tries := 0; tries < 100; tries++ {
		if _, err := list.Join(os.Args[3:]); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	select {}
}
