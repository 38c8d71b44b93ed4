// UDP over the source's fabric in ns-3: 144 hosts, 9 racks, 4 spines, 10 and 40 Gb/s, everything that
// is submitted is sent, as in `cargo bench --bench hop`. Prints processor nanoseconds for a packet on a
// link, and the mean latency of messages.
//
// Usage: blast SIZES.csv MILLISECONDS, where SIZES.csv has lines `workload,bytes,cumulative`.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace ns3;

namespace {

const uint32_t RACKS = 9, HOSTS_PER_RACK = 16, SPINES = 4, HOSTS = RACKS * HOSTS_PER_RACK;
const uint32_t PAYLOAD = 1460, SIZE_MAX_BYTES = 100000;
const uint16_t PORT = 9;

std::vector<std::pair<uint32_t, double>> sizes;
std::vector<Ptr<Socket>> sockets;
std::vector<Ipv4Address> addresses;
Ptr<UniformRandomVariable> unit;
Ptr<ExponentialRandomVariable> gap;
Time end;
uint64_t hops = 0, received = 0, messages = 0;

uint32_t DrawSize() {
    double u = unit->GetValue();
    for (const auto& row : sizes)
        if (u <= row.second) return std::min(row.first, SIZE_MAX_BYTES);
    return std::min(sizes.back().first, SIZE_MAX_BYTES);
}

void Submit(uint32_t host) {
    uint32_t to = unit->GetInteger(0, HOSTS - 2);
    if (to >= host) ++to;
    for (uint32_t left = DrawSize(); left > 0;) {
        uint32_t bytes = std::min(left, PAYLOAD);
        left -= bytes;
        sockets[host]->SendTo(Create<Packet>(bytes), 0, InetSocketAddress(addresses[to], PORT));
    }
    ++messages;
    Time next = Seconds(gap->GetValue());
    if (Simulator::Now() + next < end) Simulator::Schedule(next, &Submit, host);
}

void Received(Ptr<Socket> socket) {
    while (socket->Recv()) ++received;
}

void Sent(Ptr<const Packet>) { ++hops; }

// Ways by arithmetic. ns-3's own global routing searches a list of all networks for each packet, which
// took nine tenths of the time.
class FabricRouting : public Ipv4RoutingProtocol {
  public:
    enum Kind { HOST, LEAF, SPINE };
    FabricRouting(Kind kind, uint32_t number) : m_kind(kind), m_number(number) {}

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header& header, Ptr<NetDevice>,
                               Socket::SocketErrno& error) override {
        error = Socket::ERROR_NOTERROR;
        return Way(header.GetDestination());
    }

    bool RouteInput(Ptr<const Packet> packet, const Ipv4Header& header, Ptr<const NetDevice>,
                    const UnicastForwardCallback& forward, const MulticastForwardCallback&,
                    const LocalDeliverCallback& deliver, const ErrorCallback&) override {
        if (m_kind == HOST) {
            deliver(packet, header, 1);
        } else {
            forward(Way(header.GetDestination()), packet, header);
        }
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void SetIpv4(Ptr<Ipv4> ipv4) override { m_ipv4 = ipv4; }
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

  private:
    // Interface 0 is the loopback; the others are in the order in which links were made.
    Ptr<Ipv4Route> Way(Ipv4Address to) {
        uint32_t host = (to.Get() - Ipv4Address("10.0.0.0").Get()) / 4;
        uint32_t rack = host / HOSTS_PER_RACK, interface = 1;
        if (m_kind == SPINE) {
            interface = 1 + rack;
        } else if (m_kind == LEAF && rack == m_number) {
            interface = 1 + host % HOSTS_PER_RACK;
        } else if (m_kind == LEAF) {
            interface = 1 + HOSTS_PER_RACK + unit->GetInteger(0, SPINES - 1);
        }
        Ptr<Ipv4Route>& route = m_routes[interface];
        if (!route) {
            route = Create<Ipv4Route>();
            route->SetOutputDevice(m_ipv4->GetNetDevice(interface));
            route->SetSource(m_ipv4->GetAddress(interface, 0).GetLocal());
        }
        route->SetDestination(to);
        route->SetGateway(to);
        return route;
    }

    Kind m_kind;
    uint32_t m_number;
    Ptr<Ipv4> m_ipv4;
    std::array<Ptr<Ipv4Route>, 32> m_routes;
};

void Install(NodeContainer nodes, FabricRouting::Kind kind) {
    for (uint32_t i = 0; i < nodes.GetN(); ++i)
        nodes.Get(i)->GetObject<Ipv4>()->SetRoutingProtocol(Create<FabricRouting>(kind, i));
}

}  // namespace

int main(int argc, char* argv[]) {
    if (argc < 3) return 2;
    std::ifstream file(argv[1]);
    for (std::string line; std::getline(file, line);) {
        std::stringstream row(line);
        std::string name, bytes, share;
        std::getline(row, name, ',');
        std::getline(row, bytes, ',');
        std::getline(row, share, ',');
        if (name == "W3") sizes.emplace_back(std::stoul(bytes), std::stod(share));
    }
    if (sizes.empty()) return 2;
    end = MicroSeconds(static_cast<int64_t>(1000 * std::stod(argv[2])));
    unit = CreateObject<UniformRandomVariable>();
    // As many messages as 80 % of a link carries, with 12 + 66 bytes a packet.
    double wire = 0, before = 0;
    for (const auto& row : sizes) {
        uint32_t bytes = std::min(row.first, SIZE_MAX_BYTES);
        uint32_t full = bytes / PAYLOAD, rest = bytes % PAYLOAD;
        double each = full * 1538.0 + (rest ? std::max(84u, rest + 78) : 0u);
        wire += each * (row.second - before);
        before = row.second;
    }
    gap = CreateObject<ExponentialRandomVariable>();
    gap->SetAttribute("Mean", DoubleValue(wire * 8 / (0.8 * 10e9)));

    Config::SetDefault("ns3::DropTailQueue<Packet>::MaxSize", StringValue("1000000p"));
    NodeContainer hosts, leaves, spines;
    hosts.Create(HOSTS);
    leaves.Create(RACKS);
    spines.Create(SPINES);
    InternetStackHelper stack;
    stack.SetIpv6StackInstall(false);
    stack.InstallAll();
    PointToPointHelper slow, fast;
    for (auto* helper : {&slow, &fast}) {
        helper->SetDeviceAttribute("Mtu", UintegerValue(1500));
        helper->SetChannelAttribute("Delay", StringValue("250ns"));
    }
    slow.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    fast.SetDeviceAttribute("DataRate", StringValue("40Gbps"));
    Ipv4AddressHelper net("10.0.0.0", "255.255.255.252");
    TrafficControlHelper none;
    auto link = [&](PointToPointHelper& helper, Ptr<Node> a, Ptr<Node> b) {
        NetDeviceContainer both = helper.Install(a, b);
        for (uint32_t i = 0; i < 2; ++i)
            both.Get(i)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&Sent));
        Ipv4InterfaceContainer at = net.Assign(both);
        none.Uninstall(both);
        net.NewNetwork();
        return at.GetAddress(0);
    };
    for (uint32_t host = 0; host < HOSTS; ++host)
        addresses.push_back(link(slow, hosts.Get(host), leaves.Get(host / HOSTS_PER_RACK)));
    for (uint32_t leaf = 0; leaf < RACKS; ++leaf)
        for (uint32_t spine = 0; spine < SPINES; ++spine)
            link(fast, leaves.Get(leaf), spines.Get(spine));
    Install(hosts, FabricRouting::HOST);
    Install(leaves, FabricRouting::LEAF);
    Install(spines, FabricRouting::SPINE);
    for (uint32_t host = 0; host < HOSTS; ++host) {
        Ptr<Socket> socket = Socket::CreateSocket(hosts.Get(host), UdpSocketFactory::GetTypeId());
        socket->SetAttribute("RcvBufSize", UintegerValue(1 << 30));
        socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        socket->SetRecvCallback(MakeCallback(&Received));
        sockets.push_back(socket);
        Simulator::Schedule(Seconds(gap->GetValue()), &Submit, host);
    }
    std::clock_t from = std::clock();
    Simulator::Run();
    double seconds = static_cast<double>(std::clock() - from) / CLOCKS_PER_SEC;
    std::printf("| ns-3, UDP, FIFO, packets sprayed | %.0f | %llu hops | %llu messages | %llu packets received |\n",
                seconds * 1e9 / static_cast<double>(hops), (unsigned long long)hops,
                (unsigned long long)messages, (unsigned long long)received);
    Simulator::Destroy();
    return 0;
}
